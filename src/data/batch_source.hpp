// Microbatches for training, addressed by step and global microbatch number, so that any rank can fill any of
// them.
#pragma once

#include <cstdint>
#include <memory>

#include "data/sampler.hpp"

namespace weft::data {

struct BatchShape {
  std::int64_t batch = 1;         ///< data.batch: sequences of a microbatch
  std::int64_t global_batch = 1;  ///< data.global_batch: sequences of a step
  std::int64_t seq = 1;           ///< data.seq
};

/// Row r of microbatch m of step s (all from zero; m = round * ranks + rank) is sample s * global_batch + m *
/// batch + r.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Writes [batch, seq] row-major tokens, targets and positions. Host only; touches no state.
  virtual void fill(std::int64_t step, std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
                    std::int32_t* positions) const = 0;
};

/// Sequences of a token file in the sampler's order.
std::unique_ptr<BatchSource> file_batches(Sampler sampler, const BatchShape& shape);

/// data.synthetic: uniform random tokens below `vocab`. Token p of sample i, 0 <= p <= seq, is (b * vocab) >>
/// 32 with b the upper 32 bits of RandomStream(seed, "data.synthetic").bits(i * (seq + 1) + p).
std::unique_ptr<BatchSource> synthetic_batches(std::uint64_t seed, std::int64_t vocab,
                                               const BatchShape& shape);

}  // namespace weft::data
