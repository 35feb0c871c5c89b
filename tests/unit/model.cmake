weft_test(model
  SOURCES unit/model/one_rank.cpp unit/model/double_llama.cpp unit/model/gradients_test.cpp unit/model/documents_test.cpp unit/model/uses_test.cpp unit/model/accumulation_test.cpp
          unit/model/initial_test.cpp unit/model/launches_test.cpp unit/model/kokkos_tool.cpp unit/model/tool_test.cpp unit/model/delays_test.cpp unit/model/head_test.cpp unit/model/replay_test.cpp
  DEPS weft::train weft::base weft::comm weft::kernels weft::deck weft::ops weft::model weft::passes weft::exec weft::data weft::compile weft::runtime Kokkos::kokkos Threads::Threads)
