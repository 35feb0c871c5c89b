#include "base/check.hpp"

#include <cerrno>
#include <new>
#include <system_error>

#include "base/quoted.hpp"

namespace weft {

ExitCode exit_code_of(const std::exception& e) {
  if (const auto* error = dynamic_cast<const Error*>(&e)) return error->code();
  const bool of_system = dynamic_cast<const std::bad_alloc*>(&e) != nullptr ||
                         dynamic_cast<const std::system_error*>(&e) != nullptr;
  return of_system ? ExitCode::environment : ExitCode::internal;
}

ExitCode exit_code_of_named_file(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EACCES:
    case EPERM: return ExitCode::bad_input;
    default: return ExitCode::environment;
  }
}

std::string message_of(const std::exception& e) {
  if (dynamic_cast<const Error*>(&e) != nullptr) return e.what();
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr)
    return "out of memory (the system refused an allocation); free some, or lower what the run takes";
  const std::string what = one_line(e.what());
  if (dynamic_cast<const std::system_error*>(&e) != nullptr)
    return fmt::format("the system refuses: {}; see to that, then start again", what);
  return fmt::format("internal error: {} (this is a bug in Weft); please report it with deck and log",
                     what.empty() ? "unknown" : what);
}

}  // namespace weft

namespace weft::detail {

void fail_validate(const std::string& message) {
  throw Error(ExitCode::bad_input, message);
}

void fail_system(const std::string& message) {
  throw Error(ExitCode::environment, message);
}

void fail_expect(const char* expression, const char* file, int line, const std::string& message) {
  throw std::logic_error(
      fmt::format("{}:{}: expected {}{}{}", file, line, expression, message.empty() ? "" : ": ", message));
}

}  // namespace weft::detail
