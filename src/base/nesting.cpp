#include "base/nesting.hpp"

#include <cstddef>

namespace weft {

bool nests_deeply(std::string_view text) {
  constexpr int most_levels = 32;
  int level = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size() && level <= most_levels; ++i) {
    const char c = text[i];
    if (c == '"')
      in_string = !in_string;
    else if (in_string)
      i += c == '\\' ? 1 : 0;
    else
      level += static_cast<int>(c == '[' || c == '{') - static_cast<int>(c == ']' || c == '}');
  }
  return level > most_levels;
}

}  // namespace weft
