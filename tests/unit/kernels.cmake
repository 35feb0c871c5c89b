set(kernel_tests ${CMAKE_CURRENT_LIST_DIR}/kernels)
weft_test(kernels
  SOURCES ${kernel_tests}/rig.cpp ${kernel_tests}/embedding.cpp ${kernel_tests}/rms_norm.cpp ${kernel_tests}/rope.cpp
          ${kernel_tests}/attention.cpp ${kernel_tests}/attention_context.cpp ${kernel_tests}/sections.cpp
          ${kernel_tests}/pointwise.cpp ${kernel_tests}/cross_entropy.cpp ${kernel_tests}/linear_cross_entropy.cpp
          ${kernel_tests}/update.cpp ${kernel_tests}/exact_norm.cpp ${kernel_tests}/matmul.cpp ${kernel_tests}/memory.cpp
          ${kernel_tests}/derivatives.cpp ${kernel_tests}/threads.cpp ${kernel_tests}/value_hash.cpp ${kernel_tests}/nonfinite.cpp ${kernel_tests}/float8.cpp
          ${kernel_tests}/float8_matmul.cpp
  DEPS weft::kernels weft::base)
set_target_properties(test_kernels PROPERTIES UNITY_BUILD OFF)  # each source has its own `Case` and `cases`

if(WEFT_FAKECUDA)  # a team's threads take turns
  set_tests_properties(unit.kernels PROPERTIES TIMEOUT 900)
endif()

if(WEFT_NVCC)  # of what nvcc made, without a device
  find_program(WEFT_PYTHON python3)
  if(WEFT_PYTHON)
    add_test(NAME unit.device_code COMMAND ${WEFT_PYTHON} ${PROJECT_SOURCE_DIR}/tests/device_code.py ${PROJECT_BINARY_DIR})
    set_tests_properties(unit.device_code PROPERTIES LABELS unit TIMEOUT 300 SKIP_RETURN_CODE 77)
  endif()
endif()

if(WEFT_SANITIZE)  # it draws all operands, at half of the tests' time without optimisation
  set_source_files_properties(${kernel_tests}/rig.cpp PROPERTIES COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON)
endif()

# These tests run with other instruction sets than this machine's best: bf16 by dot products, and fp32
# arithmetic from bf16 storage. Without AVX-512 the latter is the best.
set(other_isas "")
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo avx512 REGEX "^flags.* avx512f( |$)" LIMIT_COUNT 1)
  if(avx512)
    set(other_isas AVX512_CORE_BF16 AVX2)
  endif()
endif()
foreach(isa ${other_isas})
  add_test(NAME unit.kernels.${isa} COMMAND test_kernels --gtest_filter=Matmul.*:Attention.*:LinearCrossEntropy.*:Threads.*)
  set_tests_properties(unit.kernels.${isa} PROPERTIES LABELS unit TIMEOUT 300
                       ENVIRONMENT "${WEFT_TEST_ENVIRONMENT};ONEDNN_MAX_CPU_ISA=${isa}")
endforeach()

# These tests run with what the libraries' own environment could make of fp32 and of its bits.
add_test(NAME unit.kernels.fp32 COMMAND test_kernels --gtest_filter=Matmul.FloatIsNotRoundedToBfloat:Threads.*)
set_tests_properties(unit.kernels.fp32 PROPERTIES LABELS unit TIMEOUT 300
                     ENVIRONMENT "${WEFT_TEST_ENVIRONMENT};ONEDNN_DEFAULT_FPMATH_MODE=BF16;MKL_BLAS_COMPUTE_MODE=FLOAT_TO_BF16;\
DAL_BLAS_COMPUTE_MODE=FLOAT_TO_BF16;MKL_CBWR=AVX512;MKL_DYNAMIC=TRUE;MKL_NUM_THREADS=2")
