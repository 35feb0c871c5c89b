// The command line: reads the arguments, and calls the command that they name.
#pragma once

#include <string_view>

#include "base/check.hpp"

namespace weft::cli {

/// An error whose message is on the terminal already.
class ToldError : public Error {
 public:
  explicit ToldError(ExitCode code) : Error(code, "") {}
};

/// Writes a message to the terminal, with a prefix for each of its lines.
void tell_error(std::string_view message);

/// Runs `weft ARGUMENTS` and returns the exit code. Throws weft::Error; a message may have several lines, and
/// is empty on ranks that leave the speaking to rank 0. Throws ToldError for what it has told itself.
int run(int argc, char** argv);

}  // namespace weft::cli
