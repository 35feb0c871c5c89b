include(${PROJECT_SOURCE_DIR}/tests/support/golden.cmake)
weft_test(transformers LABEL golden
  SOURCES golden/model_test.cpp unit/model/one_rank.cpp
  DEPS weft::test_golden weft::base weft::kernels weft::deck weft::ops weft::passes weft::exec weft::compile weft::runtime)
