// Ends a program that its processor cannot run, with a line that says so. It does this before any instruction
// that the processor may not have: ahead of the static objects of all other sources, which are built for the
// newer processor.
#include <unistd.h>

#include <cstring>

#include "base/processor.hpp"

namespace {

constexpr int earliest_of_a_program = 101;
constexpr int environment = 6;  // the value of weft::ExitCode::environment

void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nobody listens, the exit code stays
}

__attribute__((constructor(earliest_of_a_program))) void check_processor() {
  const weft::processor::Sets missing = weft::processor::built_for & ~weft::processor::present();
  if (missing == 0) return;
  char names[512];
  weft::processor::write_names(missing, names, sizeof names);
  say("weft: error: this program was built for another processor (this one lacks ");
  say(names);
  say("); build it on this machine, or with WEFT_ARCH for the oldest processor that is to run it\n");
  ::_exit(environment);
}

}  // namespace
