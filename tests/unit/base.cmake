weft_test(base SOURCES unit/base/small_file_test.cpp DEPS weft::base)
