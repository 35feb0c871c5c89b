// An empty source, because precompiled headers need a target that compiles something
// (tests/support/CMakeLists.txt).
