weft_test(pipe SOURCES unit/pipe/balance_test.cpp unit/pipe/pipeline_schedule_test.cpp DEPS weft::pipe weft::base)
