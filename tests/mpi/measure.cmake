weft_test(measure
  SOURCES mpi/measure/measure_test.cpp
  DEPS weft::measure weft::test_mpi
  LABEL mpi
  RANKS 1 2 3 4)
