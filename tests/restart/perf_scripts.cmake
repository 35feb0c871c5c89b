# What the scripts of perf/ do before they measure: no run is timed here.
find_program(WEFT_PYTHON python3)
if(WEFT_PYTHON)
  add_test(NAME restart.perf_scripts COMMAND ${WEFT_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/perf_scripts_test.py)
  set_tests_properties(restart.perf_scripts PROPERTIES LABELS restart TIMEOUT 300)
  weft_test_environment(restart.perf_scripts WEFT=$<TARGET_FILE:weft>)
endif()
