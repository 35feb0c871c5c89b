weft_test(hf
  SOURCES unit/hf/element_test.cpp unit/hf/header_test.cpp unit/hf/files_test.cpp unit/hf/config_test.cpp
          unit/hf/model_dir.cpp unit/hf/roundtrip_test.cpp unit/hf/weights_test.cpp
          ${WEFT_FAULTS_SOURCES}
  DEPS weft::hf weft::model weft::base weft::deck weft::ckpt nlohmann_json::nlohmann_json)
if(WEFT_FAULTS_SOURCES)
  target_sources(test_hf PRIVATE unit/hf/export_faults_test.cpp unit/hf/import_faults_test.cpp)
endif()
if(WEFT_SANITIZE MATCHES address)  # it is deep in nlohmann::json
  set_tests_properties(unit.hf PROPERTIES ENVIRONMENT_MODIFICATION "${WEFT_WITHOUT_FAKE_STACKS}")
endif()
