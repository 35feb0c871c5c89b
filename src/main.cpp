// The program `weft`: runs the command line, and turns exceptions into messages and exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <string_view>
#include <thread>

#include "base/check.hpp"
#include "cli/app.hpp"
#include "comm/world.hpp"

namespace {

/// Opens /dev/null for the standard descriptors that are closed. A file that is opened later, such as the
/// run's log, would else get the number, and with it what is meant for the terminal. It is open for reading
/// alone, so that a command still hears that its output cannot be written.
void fill_standard_descriptors() {
  int opened = 0;
  do {
    opened = ::open("/dev/null", O_RDONLY);  // takes the lowest number that is free
  } while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened >= 0) ::close(opened);
}

/// Ends the program. The world is gone by now, but other ranks may still wait for this one, so they are
/// ended, too. With an empty message rank 0 is the one that speaks, and gets the time to do so.
[[noreturn]] void fail(std::string_view message, int code) {
  if (message.empty()) std::this_thread::sleep_for(std::chrono::seconds(2));
  weft::cli::tell_error(message);
  weft::comm::end_all_ranks(code);
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  try {
    return weft::cli::run(argc, argv);
  } catch (const weft::cli::ToldError& e) {
    weft::comm::end_all_ranks(static_cast<int>(e.code()));
  } catch (const std::exception& e) {
    fail(weft::message_of(e), static_cast<int>(weft::exit_code_of(e)));
  }
}
