weft_test(study SOURCES unit/study/study_test.cpp unit/study/tables_test.cpp DEPS weft::study weft::job weft::deck weft::machine weft::base hdf5::hdf5 nlohmann_json::nlohmann_json)
if(NOT WEFT_SANITIZE)  # a test that runs the program is left out there
  add_dependencies(test_study weft)
endif()
