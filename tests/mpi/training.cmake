set(training_seconds 900)
if(WEFT_FAKECUDA)  # a kernel's threads take turns
  set(training_seconds 1800)
  set(WEFT_TRAINING_TEST_ENVIRONMENT "WEFT_TEST_DEADLINE=900")
endif()
weft_test(training
  SOURCES mpi/training/agree_test.cpp mpi/training/bad_numbers_test.cpp mpi/training/bits_test.cpp mpi/training/context_test.cpp mpi/training/cut_axis.cpp mpi/training/float8_test.cpp mpi/training/hashes_test.cpp mpi/training/init_test.cpp mpi/training/lanes_test.cpp mpi/training/pipe_test.cpp mpi/training/replicas_test.cpp mpi/training/rows_test.cpp
          mpi/training/session_test.cpp mpi/training/tensor_test.cpp mpi/training/tokens_test.cpp
  DEPS weft::train weft::test_mpi weft::base weft::comm weft::kernels weft::deck weft::plan weft::exec weft::ckpt weft::hf weft::data weft::compile weft::runtime weft::compare
  LABEL mpi
  RANKS 1 2 3 4
  TIMEOUT ${training_seconds}
  ENVIRONMENT "${WEFT_TRAINING_TEST_ENVIRONMENT}")
# Six ranks are for what four do not have: meshes of two and three, either way round, and axes of tensor and context of as many.
# What has one axis is tested on one to four.
add_test(NAME mpi.training.np6 COMMAND ${WEFT_MPIRUN} ${MPIEXEC_NUMPROC_FLAG} 6 $<TARGET_FILE:test_training>
                                       --gtest_filter=Replicas.*:Precisions/Bits.*:Tensor.Heads*:Context.Meshes*)
set_tests_properties(mpi.training.np6 PROPERTIES LABELS mpi TIMEOUT 900 PROCESSORS 2)
weft_test_environment(mpi.training.np6 ${WEFT_MPI_TEST_ENVIRONMENT} ${WEFT_TRAINING_TEST_ENVIRONMENT})
