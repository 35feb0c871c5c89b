# weft::test_golden reads golden files. Every tests/golden/*.cmake includes this file.
include_guard(GLOBAL)
add_library(weft_test_golden STATIC ${CMAKE_CURRENT_LIST_DIR}/golden.cpp)
add_library(weft::test_golden ALIAS weft_test_golden)
target_include_directories(weft_test_golden PUBLIC ${PROJECT_SOURCE_DIR}/tests ${HDF5_INCLUDE_DIRS})
target_link_libraries(weft_test_golden PUBLIC weft::base PRIVATE weft_options ${HDF5_LIBRARIES})
