weft_test(pace SOURCES unit/comm/pace_test.cpp DEPS weft::comm)
