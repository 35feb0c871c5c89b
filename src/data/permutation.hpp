// A keyed permutation of 0..n-1 without tables: a Feistel network on the next power of four, walked until it
// falls back below n (cycle walking; Black & Rogaway, 2002).
#pragma once

#include <cstdint>

#include "base/rng.hpp"

namespace weft::data {

/// The order of one epoch, fixed by (seed, n, epoch). tests/golden/shuffle.py is the same in Python.
///
/// half = max(1, ceil(bits(n - 1) / 2)); x = left << half | right; six rounds (left, right) = (right, left ^
/// F(right)) with F = the low `half` bits of RandomStream(seed, "data.shuffle").bits(epoch << 36 | round <<
/// 32 | right); repeated while the result is n or more. That takes fewer than four turns on average.
class Permutation {
 public:
  /// Makes the permutations of 0..n-1; n is from 1 to 2^62.
  Permutation(std::uint64_t seed, std::uint64_t n);
  /// The place to which `i`, below n, goes in this epoch (below 2^28).
  std::uint64_t at(std::uint64_t epoch, std::uint64_t i) const;

 private:
  RandomStream random_;
  std::uint64_t n_;
  int half_;
};

}  // namespace weft::data
