# Real `weft` processes under a real mpirun: interrupted, starved and fed nonsense.
weft_test(program LABEL restart TIMEOUT 900
  SOURCES restart/job.cpp restart/workspace.cpp restart/continue_test.cpp restart/resume_test.cpp restart/background_test.cpp restart/disk_test.cpp
          restart/failure_test.cpp restart/hang_test.cpp restart/bad_input_test.cpp restart/workflow_test.cpp restart/plan_test.cpp restart/record_test.cpp restart/profile_test.cpp restart/compare_test.cpp restart/interchange_test.cpp restart/memory_test.cpp restart/stop_test.cpp restart/lock_test.cpp
  DEPS weft::deck weft::machine nlohmann_json::nlohmann_json)
target_compile_definitions(test_program PRIVATE WEFT_MPIRUN="${WEFT_MPIRUN}")
add_dependencies(test_program weft)
set_tests_properties(restart.program PROPERTIES PROCESSORS 2)
