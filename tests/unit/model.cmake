# Apart from its users, because what includes Kokkos goes through nvcc in the cuda preset.
add_library(weft_test_kokkos_tool STATIC unit/model/kokkos_tool.cpp)
target_include_directories(weft_test_kokkos_tool PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(weft_test_kokkos_tool PRIVATE weft_options Kokkos::kokkos)
weft_test(model
  SOURCES unit/model/one_rank.cpp unit/model/double_llama.cpp unit/model/gradients_test.cpp unit/model/documents_test.cpp unit/model/uses_test.cpp unit/model/accumulation_test.cpp
          unit/model/initial_test.cpp unit/model/launches_test.cpp unit/model/tool_test.cpp unit/model/delays_test.cpp unit/model/head_test.cpp unit/model/replay_test.cpp
  DEPS weft::train weft::base weft::comm weft::kernels weft::deck weft::ops weft::model weft::passes weft::exec weft::data weft::compile weft::runtime
       weft_test_kokkos_tool Threads::Threads)
