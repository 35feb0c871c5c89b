// Byte pair encoding of words (Sennrich et al., 2016), as byte-level tokenizers do it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::data {

/// Merges the pair of neighbours with the lowest rank, the leftmost of several, until there is none. A word
/// of n bytes takes O(n log n) steps. One thread at a time may use it.
class Bpe {
 public:
  /// The id of each byte alone, before any merge.
  explicit Bpe(const std::array<std::int32_t, 256>& byte_ids) : byte_ids_(byte_ids) {}

  /// Lets `left` and `right` become `merged`. Of two merges of one pair the later one counts.
  void add_merge(std::int32_t left, std::int32_t right, std::int32_t rank, std::int32_t merged) {
    merges_.insert_or_assign(key(left, right), Merge{rank, merged});
  }
  std::int32_t byte_id(unsigned char byte) const { return byte_ids_[byte]; }

  /// Appends the ids of a word of less than 2^31 bytes.
  void encode(std::string_view word, std::vector<std::int32_t>& ids);

 private:
  struct Merge {
    std::int32_t rank, merged;
  };
  struct Symbol {
    std::int32_t id;              ///< -1 when it was merged into the one before
    std::int32_t before, behind;  ///< its neighbours; -1: none
  };
  struct Candidate {
    std::int32_t rank, at, left, right, merged;
  };

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  /// Whether `a` comes after `b`: the top of the heap is then the merge that comes first.
  static bool later(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }
  bool candidate(std::int32_t at, Candidate& made) const;
  void push(std::int32_t at);
  void merge(const Candidate& pair);

  std::array<std::int32_t, 256> byte_ids_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::vector<Symbol> symbols_;  ///< of the word in progress
  std::vector<Candidate> heap_;
};

}  // namespace weft::data
