# Tests with jobs under a real Slurm; they are skipped where its daemons cannot be started.
add_test(NAME slurm.train COMMAND ${CMAKE_CURRENT_LIST_DIR}/run_slurm_test.sh)
add_test(NAME slurm.requeue COMMAND ${CMAKE_CURRENT_LIST_DIR}/run_requeue_test.sh)
add_test(NAME slurm.study COMMAND ${CMAKE_CURRENT_LIST_DIR}/run_study_test.sh)
# They wait for most of their time: others may run beside them, but not one of these beside the other.
set_tests_properties(slurm.train slurm.requeue slurm.study PROPERTIES LABELS slurm TIMEOUT 900 SKIP_RETURN_CODE 77 RESOURCE_LOCK slurm
                     ENVIRONMENT "WEFT=$<TARGET_FILE:weft>")
set_tests_properties(slurm.requeue PROPERTIES COST 200)
# The scripts of jobs/, with others in the place of Slurm and MPI.
add_test(NAME slurm.scripts COMMAND ${CMAKE_CURRENT_LIST_DIR}/run_scripts_test.sh)
set_tests_properties(slurm.scripts PROPERTIES LABELS slurm TIMEOUT 120)
