weft_test(pace SOURCES unit/comm/pace_test.cpp DEPS weft::comm)
weft_test(shared_segment SOURCES unit/comm/shared_segment_test.cpp DEPS weft::comm)
