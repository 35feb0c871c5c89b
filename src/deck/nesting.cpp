#include "deck/nesting.hpp"

#include <algorithm>
#include <string>

namespace weft::deck {
namespace {

constexpr int most_dots = 64;
constexpr int most_brackets = 16;

/// The length of the string that `text` begins with, quotes included; one that does not end takes the rest.
std::size_t string_length(std::string_view text) {
  const char quote = text[0];
  const std::string triple(3, quote);
  const bool several_lines = text.starts_with(triple);
  std::size_t at = several_lines ? 3 : 1;
  while (at < text.size()) {
    const auto rest = text.substr(at);
    if (rest[0] == '\\' && quote == '"') {
      at += 2;
    } else if (several_lines && rest.starts_with(triple)) {  // two more quotes may belong to the string
      return at + std::min<std::size_t>({rest.find_first_not_of(quote), rest.size(), 5});
    } else if (!several_lines && (rest[0] == quote || rest[0] == '\n')) {
      return at + (rest[0] == quote ? 1 : 0);
    } else {
      ++at;
    }
  }
  return text.size();
}

}  // namespace

std::size_t too_deep_at(std::string_view text) {
  std::size_t line = 1;
  int dots = 0, brackets = 0;
  while (!text.empty()) {
    std::size_t length = 1;
    switch (text[0]) {
      case '#': length = std::min(text.find('\n'), text.size()); break;
      case '"':
      case '\'': length = string_length(text); break;
      case '\n': dots = 0; break;
      case '.': ++dots; break;
      case '[':
      case '{': ++brackets; break;
      case ']':
      case '}': brackets = std::max(0, brackets - 1); break;
      default: break;
    }
    if (dots > most_dots || brackets > most_brackets) return line;
    line += static_cast<std::size_t>(
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length), '\n'));
    text.remove_prefix(length);
  }
  return 0;
}

}  // namespace weft::deck
