// Makes a hang a failure with a name: each test has a deadline, which an alarm signal keeps.
#pragma once

namespace weft::test::watchdog {

/// The seconds that a test may take: WEFT_TEST_DEADLINE, or 120.
unsigned deadline();
/// Ends the process after S seconds with status 86 and "rank R of N: WHAT (no end within S s)" on stderr,
/// unless disarmed or armed again before. A dead rank makes the launcher end the others; each has a second to
/// say what it was waiting for.
void arm(unsigned seconds, int rank, int size, const char* what);
void disarm();

}  // namespace weft::test::watchdog
