#include "support/watchdog.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weft::test::watchdog {
namespace {

constexpr int exit_status = 86;
// Written before the alarm is set, so that the handler only calls what is safe in a signal handler.
char message[512];

void expired(int) {
  if (write(STDERR_FILENO, message, std::strlen(message)) < 0) _exit(exit_status);
  sleep(1);
  _exit(exit_status);
}

}  // namespace

unsigned deadline() {
  const char* text = std::getenv("WEFT_TEST_DEADLINE");
  const int seconds = text != nullptr ? std::atoi(text) : 0;
  return seconds > 0 ? static_cast<unsigned>(seconds) : 120;
}

void arm(unsigned seconds, int rank, int size, const char* what) {
  alarm(0);
  std::snprintf(message, sizeof message, "[  HANG    ] rank %d of %d: %s (no end within %u s)\n", rank, size,
                what, seconds);
  std::signal(SIGALRM, expired);
  alarm(seconds);
}

void disarm() {
  alarm(0);
}

}  // namespace weft::test::watchdog
