weft_test(graph TIMEOUT 600
  SOURCES unit/graph/text_test.cpp unit/graph/passes_test.cpp unit/graph/plan_test.cpp unit/graph/memory_test.cpp unit/graph/picture_test.cpp unit/graph/partition_test.cpp unit/graph/context_test.cpp unit/graph/pipe_test.cpp unit/graph/replicas_test.cpp unit/graph/placements_test.cpp unit/graph/schedule_test.cpp unit/graph/fuse_test.cpp unit/graph/float8_test.cpp unit/graph/share_test.cpp unit/graph/rows_test.cpp unit/graph/inline_vector_test.cpp unit/graph/module_path_test.cpp
  DEPS weft::plan weft::base weft::ir weft::ops weft::model weft::passes)
