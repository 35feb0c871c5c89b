#include "data/added_tokens.hpp"

#include <algorithm>
#include <utility>

namespace weft::data {

void AddedTokens::add(std::string content, std::int32_t id) {
  begins_[static_cast<unsigned char>(content[0])] = true;
  tokens_.push_back({std::move(content), id});
}

void AddedTokens::sort() {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const Token& a, const Token& b) { return a.content < b.content; });
}

AddedTokens::Match AddedTokens::find(std::string_view text) const {
  if (tokens_.empty()) return {};
  for (std::size_t begin = 0; begin < text.size(); ++begin)
    if (begins_[static_cast<unsigned char>(text[begin])])
      if (const Match match = at(text, begin); match.size > 0) return match;
  return {};
}

/// Narrows the sorted tokens down to those that agree with the text in ever more bytes.
AddedTokens::Match AddedTokens::at(std::string_view text, std::size_t begin) const {
  Match longest;
  auto first = tokens_.begin(), last = tokens_.end();
  for (std::size_t n = 0; first != last && begin + n < text.size(); ++n) {
    const char c = text[begin + n];
    const auto byte = [n](const Token& token) { return static_cast<unsigned char>(token.content[n]); };
    first = std::partition_point(first, last, [&](const Token& token) {
      return token.content.size() <= n || byte(token) < static_cast<unsigned char>(c);
    });
    last = std::partition_point(
        first, last, [&](const Token& token) { return byte(token) == static_cast<unsigned char>(c); });
    // Of contents that agree up to here the shortest comes first, so one that ends here is the first.
    if (first != last && first->content.size() == n + 1) longest = {begin, n + 1, first->id};
  }
  return longest;
}

}  // namespace weft::data
