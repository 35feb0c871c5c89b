weft_test(pipe SOURCES unit/pipe/schedule_test.cpp DEPS weft::pipe weft::base)
