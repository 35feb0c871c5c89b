// Errors are sorted by whose fault they are; docs/errors.md has the rule. WEFT_VALIDATE guards what the user
// gave, WEFT_SYSTEM what the machine and its storage do, and a std::logic_error is our own fault (WEFT_EXPECT
// throws one in debug builds). Messages read "PROBLEM (WHY); WHAT TO DO".
#pragma once

#include <fmt/core.h>

#include <exception>
#include <stdexcept>
#include <string>

namespace weft {

/// The exit codes of the program. docs/running.md documents them, and scripts rely on them.
enum class ExitCode : int {
  ok = 0,
  failure = 1,
  bad_input = 2,
  comm_failure = 3,
  bad_checkpoint = 4,
  stopped = 5,  ///< the file STOP asked for it: the state is saved, and a script must not start the run again
  environment = 6,  ///< the machine or its storage refuses what a good input asks for
  internal = 70,    ///< EX_SOFTWARE of sysexits.h: a bug in Weft
  unfinished = 75,  ///< EX_TEMPFAIL of sysexits.h: nothing is wrong, start again to go on
  hang = 76         ///< a collective, or a system call on storage, did not end in time
};

/// The one exception type of Weft: a single line for the user, and the exit code that main() ends with.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// The exit code of any exception: Error's own; environment for what the system or an allocation refused;
/// internal for everything else, which only a bug throws.
ExitCode exit_code_of(const std::exception& e);
/// The exit code for a file that the user named, and that cannot be opened or read, by errno. It is the
/// user's mistake where the file is not there, is no file, or must not be read; else it is the machine's.
ExitCode exit_code_of_named_file(int error);
/// What the user reads of an exception: one line, or all the lines of an Error. Only an Error whose text is
/// empty gives an empty message.
std::string message_of(const std::exception& e);

namespace detail {
[[noreturn]] void fail_validate(const std::string& message);
[[noreturn]] void fail_system(const std::string& message);
[[noreturn]] void fail_expect(const char* expression, const char* file, int line, const std::string& message);
}  // namespace detail

}  // namespace weft

/// Throws Error(bad_input) with the formatted message unless `condition` holds.
#define WEFT_VALIDATE(condition, ...)                                            \
  do {                                                                           \
    if (!(condition)) ::weft::detail::fail_validate(::fmt::format(__VA_ARGS__)); \
  } while (false)

/// Throws Error(environment) with the formatted message unless `condition` holds.
#define WEFT_SYSTEM(condition, ...)                                            \
  do {                                                                         \
    if (!(condition)) ::weft::detail::fail_system(::fmt::format(__VA_ARGS__)); \
  } while (false)

/// Throws std::logic_error with the formatted message unless `condition` holds: a mistake of ours that is
/// looked for in every build.
#define WEFT_REQUIRE(condition, ...)                                      \
  do {                                                                    \
    if (!(condition)) throw std::logic_error(::fmt::format(__VA_ARGS__)); \
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
