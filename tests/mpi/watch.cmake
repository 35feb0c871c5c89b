weft_test(watchdog SOURCES mpi/watch/watchdog_test.cpp DEPS weft::watch LABEL mpi RANKS 3)
