// The order of training samples. It depends on seed, files, sequence length and sample alone, and so not on
// the number of ranks.
#pragma once

#include <cstdint>

#include "data/permutation.hpp"
#include "data/sequences.hpp"

namespace weft::data {

/// Gives samples of n sequences: sample i of the run is sequence permutation(i % n) of epoch i / n. Every
/// sequence comes once in an epoch, and each epoch has another order.
class Sampler {
 public:
  Sampler(Sequences sequences, std::uint64_t seed);

  std::int64_t samples_per_epoch() const { return sequences_.count(); }
  std::int64_t seq() const { return sequences_.seq(); }
  std::int64_t sequence(std::int64_t sample) const;
  /// Writes seq tokens, their targets and positions.
  void fill(std::int64_t sample, std::int32_t* tokens, std::int32_t* targets, std::int32_t* positions) const;

 private:
  Sequences sequences_;
  Permutation order_;
};

}  // namespace weft::data
