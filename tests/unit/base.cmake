set(processor "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(processor unit/base/processor_test.cpp)
endif()
weft_test(base
  SOURCES unit/base/mesh_test.cpp unit/base/portable_math_test.cpp ${processor} unit/base/rng_test.cpp unit/base/log_test.cpp unit/base/text_test.cpp unit/base/version_test.cpp
          unit/io/atomic_file_test.cpp unit/io/file_mode_test.cpp unit/io/file_test.cpp unit/io/named_path_test.cpp unit/io/new_directory_test.cpp unit/io/small_file_test.cpp unit/io/step_lines_test.cpp
  DEPS weft::io weft::kernels weft::base)
