if(WEFT_FAKECUDA)
  weft_test(fakecuda SOURCES fakecuda/fakecuda_test.cpp fakecuda/kokkos_test.cpp fakecuda/memory_test.cpp fakecuda/nans_test.cpp
    fakecuda/cublaslt_test.cpp
    DEPS weft_fakecuda weft::comm weft::kernels)
  set_target_properties(test_fakecuda PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # it has OpenMP's macro, from Kokkos
  weft_test(fakecuda_runs SOURCES fakecuda/runs_test.cpp fakecuda/preflight_test.cpp fakecuda/sample_test.cpp DEPS weft_test_jobs weft::data)
  add_dependencies(test_fakecuda_runs weft)
  set_tests_properties(unit.fakecuda_runs PROPERTIES PROCESSORS 2)
  find_library(cudnn_itself cudnn HINTS ${cudnn_ROOT} $ENV{cudnn_ROOT} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
  mark_as_advanced(cudnn_itself)
  if(WEFT_CUDNN AND cudnn_itself AND cudnn_version VERSION_GREATER_EQUAL 9.8)
    # The library stands before the fakes, which then serve the rest. It looks for a driver by name.
    add_library(weft_driver MODULE fakecuda/driver.c)
    set_target_properties(weft_driver PROPERTIES PREFIX "" OUTPUT_NAME libcuda SUFFIX .so.1 LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/driver")
    weft_test(cudnn_plans SOURCES fakecuda/cudnn_plans_test.cpp DEPS ${cudnn_itself} weft::kernels weft::deck)
    target_link_options(test_cudnn_plans PRIVATE LINKER:--no-as-needed)  # what stands before its users is found all the same
    add_dependencies(test_cudnn_plans weft_driver)
    set_property(TEST unit.cudnn_plans APPEND PROPERTY ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/driver:$ENV{LD_LIBRARY_PATH}")
  else()
    message(STATUS "Weft: without the test unit.cudnn_plans: it takes cuDNN >= 9.8 (headers: ${cudnn_version}, library: ${cudnn_itself}) and its \
front end >= 1.32 (found: ${frontend_version}); set cudnn_ROOT, cudnn_frontend_ROOT")
  endif()
endif()
