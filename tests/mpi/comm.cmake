weft_test(comm SOURCES mpi/comm/checks.cpp mpi/comm/checks_shared.cpp mpi/comm/mpi_test.cpp DEPS weft::comm weft::base LABEL mpi RANKS 1 2 3 4)
weft_test(comm_fake SOURCES mpi/comm/checks.cpp mpi/comm/checks_shared.cpp mpi/comm/fake_test.cpp mpi/comm/launch_test.cpp mpi/comm/sharers_test.cpp mpi/comm/blocks_test.cpp mpi/comm/ordered_sum_test.cpp DEPS weft::comm weft::base LABEL mpi)
if(WEFT_CUDA)
  set(ranks 1)
  if(WEFT_FAKECUDA)  # which has a device for each rank
    set(ranks 1 2 3 4)
  endif()
  weft_test(nccl SOURCES mpi/comm/nccl_test.cpp DEPS weft::comm weft::kernels weft::base LABEL mpi RANKS ${ranks})
endif()
