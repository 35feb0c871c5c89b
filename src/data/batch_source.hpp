// Gives microbatches for training by step and global microbatch number, so that any rank can fill any of
// them.
#pragma once

#include <cstdint>
#include <memory>

#include "data/sampler.hpp"

namespace weft::data {

struct BatchShape {
  std::int64_t batch = 1;         ///< sequences in a microbatch (data.batch)
  std::int64_t global_batch = 1;  ///< sequences in a step (data.global_batch)
  std::int64_t seq = 1;           ///< tokens in a sequence (data.seq)
};

/// A source of microbatches. Row r of microbatch m of step s is sample s * global_batch + m * batch + r; all
/// of these count from zero, and m = round * ranks + rank.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Writes tokens, targets and positions of one microbatch, [batch, seq] row-major. It uses the host only,
  /// and changes no state.
  virtual void fill(std::int64_t step, std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
                    std::int32_t* positions) const = 0;
};

/// A source of sequences of token files, in the sampler's order.
std::unique_ptr<BatchSource> file_batches(Sampler sampler, const BatchShape& shape);

/// The source for data.synthetic: uniform random tokens below `vocab`. Token p of sample i, 0 <= p <= seq, is
/// (b * vocab) >> 32 with b the upper 32 bits of RandomStream(seed, "data.synthetic").bits(i * (seq + 1) +
/// p).
std::unique_ptr<BatchSource> synthetic_batches(std::uint64_t seed, std::int64_t vocab,
                                               const BatchShape& shape);

}  // namespace weft::data
