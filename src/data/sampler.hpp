// The order of training samples: a function of (seed, file, sequence length, sample) alone, so of no number
// of ranks.
#pragma once

#include <cstdint>

#include "data/permutation.hpp"
#include "data/token_file.hpp"

namespace weft::data {

/// A file of N tokens holds n = (N - 1) / seq windows; window w is tokens [w*seq, w*seq + seq], its inputs
/// the first seq of them, its targets the last seq. Sample i of the run is window permutation(i % n) of epoch
/// i / n: every window once an epoch, in another order each. Windows may span documents; their targets are
/// all learnt.
class Sampler {
 public:
  /// Throws Error(bad_input) when the file has no whole window.
  Sampler(TokenFile file, std::int64_t seq, std::uint64_t seed);

  std::int64_t samples_per_epoch() const { return windows_; }
  std::int64_t seq() const { return seq_; }
  std::int64_t window(std::int64_t sample) const;
  /// Writes seq tokens, their targets and positions 0..seq-1.
  void fill(std::int64_t sample, std::int32_t* tokens, std::int32_t* targets, std::int32_t* positions) const;

 private:
  TokenFile file_;
  std::int64_t seq_;
  std::int64_t windows_;
  Permutation order_;
};

/// Whole windows of the file: (tokens - 1) / seq. Throws Error(bad_input) when there is none.
std::int64_t window_count(const TokenFile& file, std::int64_t seq);
/// Copies window w: seq tokens, their targets and positions 0..seq-1.
void copy_window(const TokenFile& file, std::int64_t seq, std::int64_t w, std::int32_t* tokens,
                 std::int32_t* targets, std::int32_t* positions);

}  // namespace weft::data
