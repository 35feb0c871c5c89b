# A training over rate-limited links between network namespaces; skipped where these cannot be made.
add_test(NAME net.two_hosts COMMAND ${CMAKE_CURRENT_LIST_DIR}/run_net_test.sh)
set_tests_properties(net.two_hosts PROPERTIES LABELS net TIMEOUT 180 SKIP_RETURN_CODE 77 RUN_SERIAL ON
                     ENVIRONMENT "WEFT=$<TARGET_FILE:weft>;${WEFT_TEST_ENVIRONMENT}")
