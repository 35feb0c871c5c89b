#include "data/permutation.hpp"

#include <algorithm>
#include <bit>

#include "base/check.hpp"

namespace weft::data {

Permutation::Permutation(std::uint64_t seed, std::uint64_t n)
    : random_(seed, "data.shuffle"),
      n_(n),
      half_(std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2)) {
  WEFT_EXPECT(n >= 1 && n <= std::uint64_t{1} << 62);
}

std::uint64_t Permutation::at(std::uint64_t epoch, std::uint64_t i) const {
  WEFT_EXPECT(i < n_ && epoch < std::uint64_t{1} << 28);
  const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
  do {
    std::uint64_t left = i >> half_;
    std::uint64_t right = i & mask;
    for (std::uint64_t round = 0; round < 6; ++round) {
      const std::uint64_t mixed = left ^ (random_.bits(epoch << 36 | round << 32 | right) & mask);
      left = right;
      right = mixed;
    }
    i = left << half_ | right;
  } while (i >= n_);
  return i;
}

}  // namespace weft::data
