weft_test(measure
  SOURCES mpi/measure/measure_test.cpp
  DEPS weft::measure weft::test_mpi weft::base weft::comm weft::kernels weft::deck weft::machine weft::runtime
  LABEL mpi
  RANKS 1 2 3 4)
