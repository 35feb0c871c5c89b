if(WEFT_FAKECUDA)
  weft_test(fakecuda SOURCES fakecuda/fakecuda_test.cpp DEPS weft_fakecuda weft::comm weft::kernels)
  set_target_properties(test_fakecuda PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # it has OpenMP's macro, from Kokkos
endif()
