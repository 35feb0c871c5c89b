# A training over rate-limited links between network namespaces; skipped where these cannot be made.
add_test(NAME net.two_hosts COMMAND ${CMAKE_CURRENT_LIST_DIR}/run_net_test.sh)
# It waits for most of its time: others may run beside it. The longest are started first (COST: about their seconds).
set_tests_properties(net.two_hosts PROPERTIES LABELS net TIMEOUT 240 SKIP_RETURN_CODE 77 COST 30)
weft_test_environment(net.two_hosts WEFT=$<TARGET_FILE:weft>)
