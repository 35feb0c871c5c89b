weft_test(deck
  SOURCES unit/deck/bytes_test.cpp unit/deck/duration_test.cpp unit/deck/inputs_test.cpp unit/deck/limits_test.cpp unit/deck/mistakes_test.cpp unit/deck/mutations_test.cpp unit/deck/parse_test.cpp
          unit/deck/print_test.cpp unit/deck/schema_test.cpp unit/deck/sizes_test.cpp unit/deck/suggest_test.cpp
  DEPS weft::deck weft::base)
