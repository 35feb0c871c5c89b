weft_test(base
  SOURCES unit/base/portable_math_test.cpp unit/base/rng_test.cpp
  DEPS weft::base weft::kernels)
