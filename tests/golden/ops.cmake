include(${PROJECT_SOURCE_DIR}/tests/support/golden.cmake)
set(golden ${CMAKE_CURRENT_LIST_DIR})
weft_test(golden_ops LABEL golden
  SOURCES ${golden}/ops_test.cpp ${golden}/update_test.cpp ${golden}/reference_test.cpp ${golden}/op_case.cpp
  DEPS weft::test_golden weft::kernels weft::base)
