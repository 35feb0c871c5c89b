# Tests with real `weft` processes under a real mpirun: the commands, and runs that are interrupted, starved
# and started again.
add_library(weft_test_jobs STATIC restart/job.cpp restart/workspace.cpp)
target_link_libraries(weft_test_jobs PUBLIC weft_options weft::test_support weft::deck weft::machine nlohmann_json::nlohmann_json)
target_compile_definitions(weft_test_jobs PUBLIC WEFT_MPIRUN="${WEFT_MPIRUN}" PRIVATE WEFT_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                          WEFT_PROGRAM="${PROJECT_BINARY_DIR}/weft")
set(processor "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(processor restart/processor_test.cpp)
endif()
set(faults "")
if(TARGET weft_faults)
  set(faults restart/durable_test.cpp)
endif()
weft_test(commands LABEL restart TIMEOUT 600 SHARDS 3
  SOURCES restart/bad_input_test.cpp restart/compare_test.cpp restart/interchange_test.cpp restart/manual_test.cpp restart/memory_test.cpp restart/plan_test.cpp
          ${processor} ${faults}
          restart/profile_test.cpp restart/record_test.cpp restart/workflow_test.cpp
  DEPS weft::machine weft_test_jobs)
weft_test(survival LABEL restart TIMEOUT 600 SHARDS 3
  SOURCES restart/background_test.cpp restart/continue_test.cpp restart/disk_test.cpp restart/stop_test.cpp
  DEPS weft_test_jobs)
weft_test(starts LABEL restart TIMEOUT 600 SHARDS 2
  SOURCES restart/differ_test.cpp restart/resume_test.cpp
  DEPS weft_test_jobs)
weft_test(hangs LABEL restart TIMEOUT 600 SHARDS 3
  SOURCES restart/failure_test.cpp restart/hang_test.cpp restart/lock_test.cpp
  DEPS weft_test_jobs)
foreach(test commands survival starts hangs)
  add_dependencies(test_${test} weft)
  if(TARGET weft_faults)
    add_dependencies(test_${test} weft_faults)
    target_compile_definitions(test_${test} PRIVATE WEFT_FAULTS_LIBRARY="$<TARGET_FILE:weft_faults>")
  endif()
endforeach()
# These run on two ranks and more, and wait for half of their time. What is longest is started first.
foreach(shard 0 1 2)
  set_tests_properties(restart.commands.${shard} restart.survival.${shard} restart.hangs.${shard} PROPERTIES COST 60)
endforeach()
