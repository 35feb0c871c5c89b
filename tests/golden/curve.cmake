include(${PROJECT_SOURCE_DIR}/tests/support/golden.cmake)
weft_test(curve LABEL golden
  SOURCES golden/curve_test.cpp
  DEPS weft::test_golden weft::train weft::base weft::kernels weft::deck)
