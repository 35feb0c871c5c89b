weft_test(watchdog SOURCES mpi/watch/watchdog_test.cpp DEPS weft::watch weft::base weft::io weft::comm LABEL mpi RANKS 3)
# Its ranks wait for one another.
set_tests_properties(mpi.watchdog.np3 PROPERTIES PROCESSORS 1 COST 20)
