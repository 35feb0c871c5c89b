weft_test(search
  SOURCES unit/search/hiding_test.cpp unit/search/lanes_test.cpp unit/search/recompute_test.cpp unit/search/search_test.cpp
  DEPS weft::search weft::machine weft::plan weft::model weft::passes)
