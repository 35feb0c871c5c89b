# Tests with jobs under a real Slurm; they are skipped where its daemons cannot be started.
add_test(NAME slurm.train COMMAND ${CMAKE_CURRENT_LIST_DIR}/run_slurm_test.sh)
add_test(NAME slurm.requeue COMMAND ${CMAKE_CURRENT_LIST_DIR}/run_requeue_test.sh)
set_tests_properties(slurm.train slurm.requeue PROPERTIES LABELS slurm TIMEOUT 300 SKIP_RETURN_CODE 77 RUN_SERIAL ON
                     ENVIRONMENT "WEFT=$<TARGET_FILE:weft>")
