weft_test(job SOURCES unit/job/run_lock_test.cpp unit/job/stop_request_test.cpp DEPS weft::job)
