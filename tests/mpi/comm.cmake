weft_test(comm SOURCES mpi/comm/checks.cpp mpi/comm/checks_shared.cpp mpi/comm/mpi_test.cpp DEPS weft::comm weft::base LABEL mpi RANKS 1 2 3 4)
weft_test(comm_fake SOURCES mpi/comm/checks.cpp mpi/comm/checks_shared.cpp mpi/comm/fake_test.cpp mpi/comm/launch_test.cpp DEPS weft::comm weft::base LABEL mpi)
