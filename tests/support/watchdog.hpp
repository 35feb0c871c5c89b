// A hang is a failure with a name: a deadline for each test, kept by an alarm signal.
#pragma once

namespace weft::test::watchdog {

/// Seconds a test may take: WEFT_TEST_DEADLINE, or 120.
unsigned deadline();
/// Ends the process with status 86 and "rank R of N: WHAT (no end within S s)" on stderr, unless disarmed or
/// armed again within S seconds. A dead rank makes the launcher end the others; each has a second to say what
/// it was waiting for.
void arm(unsigned seconds, int rank, int size, const char* what);
void disarm();

}  // namespace weft::test::watchdog
