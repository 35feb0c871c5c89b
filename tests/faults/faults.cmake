# A library for LD_PRELOAD that lets one system call on files fail: perf/checkpoints.py faults. It knows the registers of one processor, and a
# sanitizer's own library wants to be the first.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT WEFT_SANITIZE)
  set(sources faults/places.cpp faults/system_calls.cpp faults/trap.cpp)
  # Tests that let their own calls fail compile these sources, too.
  list(TRANSFORM sources PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE WEFT_FAULTS_SOURCES)
  add_library(weft_faults SHARED faults/faults.cpp ${WEFT_FAULTS_SOURCES})
  target_include_directories(weft_faults PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(weft_faults PRIVATE weft_options)
  set_target_properties(weft_faults PROPERTIES CXX_VISIBILITY_PRESET hidden)
endif()
