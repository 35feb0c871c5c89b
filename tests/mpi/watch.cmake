weft_test(watchdog SOURCES mpi/watch/watchdog_test.cpp DEPS weft::watch weft::base weft::io weft::comm LABEL mpi RANKS 3)
