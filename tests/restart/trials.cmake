# These tests do a few of the things that perf/checkpoints.py does by the hundred.
find_program(WEFT_PYTHON python3)
if(WEFT_PYTHON)
  set(faults "")
  if(TARGET weft_faults)
    set(faults "WEFT_FAULTS=$<TARGET_FILE:weft_faults>")
  endif()
  foreach(trial "kills;--kills;6" "power;--states;80;--resumes;4" "damage;--flips;90;--cuts;20;--resumes;0" "reshard;--sample;6;--losses;2"
                "faults;--sample;200" "disagree;--only;checkpoint.;data.;THREADS;program")
    list(POP_FRONT trial name)
    add_test(NAME restart.trial_${name} COMMAND ${WEFT_PYTHON} ${CMAKE_SOURCE_DIR}/perf/checkpoints.py ${name} ${trial})
    set_tests_properties(restart.trial_${name} PROPERTIES LABELS restart TIMEOUT 300 SKIP_RETURN_CODE 77
                         ENVIRONMENT "WEFT=$<TARGET_FILE:weft>;MPIRUN=${WEFT_MPIRUN};${faults};${WEFT_TEST_ENVIRONMENT}")
  endforeach()
endif()
