# weft::test_golden reads golden files. Every tests/golden/*.cmake includes this file.
include_guard(GLOBAL)
add_library(weft_test_golden STATIC ${CMAKE_CURRENT_LIST_DIR}/golden.cpp)
add_library(weft::test_golden ALIAS weft_test_golden)
target_include_directories(weft_test_golden PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(weft_test_golden PUBLIC weft::base hdf5::hdf5 PRIVATE weft_options)
