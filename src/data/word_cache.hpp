// Words and their ids, for tokenizers: in natural text nearly all words come again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.hpp"

namespace weft::data {

/// Keeps the ids of the first 2^18 words of at most 32 bytes, about 30 MB.
class WordCache {
 public:
  /// Appends the ids of a word that is kept; returns false for another one.
  bool append(std::string_view word, std::vector<std::int32_t>& ids) const {
    const auto found = words_.find(word);
    if (found == words_.end()) return false;
    const auto first = ids_.begin() + found->second.begin;
    ids.insert(ids.end(), first, first + found->second.count);
    return true;
  }

  /// Keeps a word that append() does not know, if there is room for it.
  void keep(std::string_view word, std::span<const std::int32_t> ids) {
    constexpr std::size_t most_words = std::size_t{1} << 18;
    constexpr std::size_t longest = 32;
    if (word.size() > longest || words_.size() >= most_words) return;
    words_.emplace(word,
                   Span{static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint32_t>(ids.size())});
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

 private:
  struct Span {
    std::uint32_t begin, count;
  };
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return hash_text(text); }
  };
  std::unordered_map<std::string, Span, TextHash, std::equal_to<>> words_;
  std::vector<std::int32_t> ids_;
};

}  // namespace weft::data
