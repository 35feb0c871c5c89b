weft_test(job SOURCES unit/job/process_start_test.cpp unit/job/run_lock_test.cpp unit/job/stop_request_test.cpp ${WEFT_FAULTS_SOURCES} DEPS weft::job weft::base)
if(WEFT_FAULTS_SOURCES)
  target_sources(test_job PRIVATE unit/job/run_lock_faults_test.cpp)
endif()
