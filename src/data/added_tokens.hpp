// Tokens that are found in text before it is cut into words, as <|begin_of_text|>.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::data {

/// A set of texts with an id each.
class AddedTokens {
 public:
  struct Match {
    std::size_t begin = 0, size = 0;  ///< a size of 0: there is no match
    std::int32_t id = -1;
  };

  /// No content may be empty.
  void add(std::string content, std::int32_t id);
  /// Comes after the last add() and before find().
  void sort();
  /// The leftmost match in `text`, and of those that begin there the longest.
  Match find(std::string_view text) const;

 private:
  struct Token {
    std::string content;
    std::int32_t id;
  };
  Match at(std::string_view text, std::size_t begin) const;

  std::vector<Token> tokens_;       ///< sorted by content
  std::array<bool, 256> begins_{};  ///< whether a content begins with this byte
};

}  // namespace weft::data
