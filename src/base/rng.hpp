// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). The value of an element depends only
// on (seed, name, element), so that every layout and every number of ranks draws the same initial weights.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace weft {

/// One Philox block: 128 random bits for this key and counter.
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high = 0);

/// A stream of random numbers that are looked up by their index; it has no position that advances.
class RandomStream {
 public:
  /// `name` is a module path or a purpose ("data.shuffle"); streams of different names are independent.
  RandomStream(std::uint64_t seed, std::string_view name);
  double uniform(std::uint64_t i) const;  ///< in [0, 1), 53 bits
  /// Mean 0, variance 1 (Box-Muller, in double); the same bits on every host.
  double normal(std::uint64_t i) const;
  std::uint64_t bits(std::uint64_t i) const;

 private:
  std::uint64_t key_;
  std::uint64_t name_;
};

}  // namespace weft
