weft_test(machine
  SOURCES unit/machine/text_test.cpp unit/machine/collectives_test.cpp unit/machine/kernels_test.cpp
  DEPS weft::machine weft::plan weft::model weft::base weft::passes)
