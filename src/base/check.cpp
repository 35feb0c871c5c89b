#include "base/check.hpp"

namespace weft::detail {

void fail_validate(const std::string& message) {
  throw Error(ExitCode::bad_input, message);
}

void fail_expect(const char* expression, const char* file, int line, const std::string& message) {
  throw std::logic_error(
      fmt::format("{}:{}: expected {}{}{}", file, line, expression, message.empty() ? "" : ": ", message));
}

}  // namespace weft::detail
