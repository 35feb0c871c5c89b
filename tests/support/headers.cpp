// Precompiled headers need a target that compiles something (tests/support/CMakeLists.txt): an empty source.
