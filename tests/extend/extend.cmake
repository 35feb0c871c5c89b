# The test that goes CONTRIBUTING.md's path for an operation once more, with a toy operation.
if(NOT WEFT_CUDA AND NOT WEFT_SANITIZE)
  add_test(NAME unit.toy_operation COMMAND ${CMAKE_CURRENT_LIST_DIR}/toy_operation.sh ${PROJECT_BINARY_DIR}
           $<TARGET_FILE:weft_base> $<TARGET_FILE:fmt::fmt>)
  set_tests_properties(unit.toy_operation PROPERTIES LABELS unit TIMEOUT 600 ENVIRONMENT "${WEFT_TEST_ENVIRONMENT}")
endif()
