// Errors. WEFT_VALIDATE guards the user's input and always runs; WEFT_EXPECT guards our own logic and runs in
// debug builds. Messages read "PROBLEM (WHY) SUGGESTION". Only main() catches.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace weft {

/// Exit codes of the program. Documented in docs/running.md; scripts rely on them.
enum class ExitCode : int {
  ok = 0,
  failure = 1,
  bad_input = 2,
  comm_failure = 3,
  bad_checkpoint = 4,
  stopped = 5,      ///< as the file STOP asked: saved, and not to be started again by a script
  unfinished = 75,  ///< EX_TEMPFAIL of sysexits.h: nothing is wrong, start again to go on
  hang = 76         ///< a collective did not end in time
};

/// The one exception type of Weft: a single line for the user, and the exit code that main() ends with.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

namespace detail {
[[noreturn]] void fail_validate(const std::string& message);
[[noreturn]] void fail_expect(const char* expression, const char* file, int line, const std::string& message);
}  // namespace detail

}  // namespace weft

/// Throws Error(bad_input) with the formatted message unless `condition` holds.
#define WEFT_VALIDATE(condition, ...)                                            \
  do {                                                                           \
    if (!(condition)) ::weft::detail::fail_validate(::fmt::format(__VA_ARGS__)); \
  } while (false)

/// Throws std::logic_error with expression and place unless `condition` holds; compiled out in release
/// builds.
#ifdef WEFT_DEBUG
#define WEFT_EXPECT(condition, ...)                                                               \
  do {                                                                                            \
    if (!(condition))                                                                             \
      ::weft::detail::fail_expect(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
#else
#define WEFT_EXPECT(condition, ...) static_cast<void>(sizeof(condition))
#endif
