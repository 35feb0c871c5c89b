weft_test(recorder SOURCES unit/comm/recorder_test.cpp DEPS weft::comm)
weft_test(watch SOURCES unit/watch/diagnose_test.cpp DEPS weft::watch weft::base)
