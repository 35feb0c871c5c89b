// Stands for regex_pcre2.cpp in a build without PCRE2.
#include "base/check.hpp"
#include "data/regex.hpp"

namespace weft::data {

struct Regex::Impl {};

Regex::Regex(std::string_view, const std::string& where) {
  throw Error(
      ExitCode::bad_input,
      fmt::format("{}: it needs a regular expression (this Weft was built without PCRE2); install PCRE2 "
                  "with its headers (Debian: libpcre2-dev), and configure and build Weft again",
                  where));
}

Regex::Regex(Regex&&) noexcept = default;
Regex::~Regex() = default;

bool Regex::find(std::string_view, std::size_t, Match&) {
  return false;
}

}  // namespace weft::data
