include(${PROJECT_SOURCE_DIR}/tests/support/golden.cmake)
weft_test(hugging_face LABEL golden
  SOURCES golden/hugging_face_test.cpp unit/model/one_rank.cpp
  DEPS weft::test_golden weft::train weft::base weft::kernels weft::deck weft::ops weft::passes weft::exec weft::ckpt weft::hf weft::compile weft::runtime)
