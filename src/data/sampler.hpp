// The order of training samples. It depends on seed, files, sequence length and sample alone, and so not on
// the number of ranks.
#pragma once

#include <cstdint>

#include "data/permutation.hpp"
#include "data/windows.hpp"

namespace weft::data {

/// Gives samples of n windows: sample i of the run is window permutation(i % n) of epoch i / n. Every window
/// comes once in an epoch, and each epoch has another order.
class Sampler {
 public:
  Sampler(Windows windows, std::uint64_t seed);

  std::int64_t samples_per_epoch() const { return windows_.count(); }
  std::int64_t seq() const { return windows_.seq(); }
  std::int64_t window(std::int64_t sample) const;
  /// Writes seq tokens, their targets and positions.
  void fill(std::int64_t sample, std::int32_t* tokens, std::int32_t* targets, std::int32_t* positions) const;

 private:
  Windows windows_;
  Permutation order_;
};

}  // namespace weft::data
