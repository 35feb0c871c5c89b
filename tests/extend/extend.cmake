# The test that goes CONTRIBUTING.md's path for an operation once more, with a toy operation.
if(NOT WEFT_CUDA AND NOT WEFT_SANITIZE)
  # jobs/prefix.sh's fmt is headers alone: there is no library of it to link.
  get_target_property(fmt_type fmt::fmt TYPE)
  set(fmt_library $<TARGET_FILE:fmt::fmt>)
  if(fmt_type STREQUAL "INTERFACE_LIBRARY")
    set(fmt_library "")
  endif()
  add_test(NAME extend.toy_operation COMMAND ${CMAKE_CURRENT_LIST_DIR}/toy_operation.sh ${PROJECT_BINARY_DIR}
           $<TARGET_FILE:weft_base> ${fmt_library})
  set_tests_properties(extend.toy_operation PROPERTIES LABELS extend TIMEOUT 600 ENVIRONMENT "${WEFT_TEST_ENVIRONMENT}")
endif()
