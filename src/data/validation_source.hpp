// Gives the sequences of a validation from first to last, in microbatches, with the bytes of text that are
// predicted.
#pragma once

#include <cstdint>

#include "data/sequences.hpp"

namespace weft::data {

/// Microbatch m holds sequences m*batch .. m*batch + batch - 1. Any m may be asked for: rows past the last
/// sequence have token 0 and target -1 (ignored), so that ranks can walk the same number of rounds, m = round
/// * ranks + rank. Bits per byte = (sum of the targets' losses in nats) / (ln 2 * total_bytes()).
class ValidationSource {
 public:
  /// With limit > 0, only the first `limit` sequences are used.
  ValidationSource(Sequences sequences, std::int64_t batch, std::int64_t limit = 0);

  std::int64_t sequences() const { return count_; }
  std::int64_t microbatches() const { return (count_ + batch_ - 1) / batch_; }
  std::int64_t total_bytes() const { return total_bytes_; }  ///< bytes of text that all targets stand for
  std::int64_t total_targets() const { return count_ * sequences_.seq(); }
  /// How many bytes of text the targets of one microbatch stand for.
  std::int64_t bytes(std::int64_t microbatch) const;
  /// Writes tokens, targets (-1: ignored) and positions of one microbatch, [batch, seq] row-major.
  void fill(std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
            std::int32_t* positions) const;

 private:
  Sequences sequences_;
  std::int64_t batch_;
  std::int64_t count_;
  std::int64_t total_bytes_;
};

}  // namespace weft::data
