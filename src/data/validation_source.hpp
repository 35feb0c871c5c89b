// Validation: the windows of a file from first to last, in microbatches, with the bytes of text that are
// predicted.
#pragma once

#include <cstdint>

#include "data/token_file.hpp"

namespace weft::data {

/// Microbatch m holds windows m*batch .. m*batch + batch - 1. Any m may be asked for: rows past the last
/// window have token 0 and target -1 (ignored), so that ranks can walk the same number of rounds, m = round *
/// ranks + rank. Bits per byte = (sum of the targets' losses in nats) / (ln 2 * total_bytes()).
class ValidationSource {
 public:
  /// limit > 0: only the first `limit` windows. Throws Error(bad_input) when the file has no whole window.
  ValidationSource(TokenFile file, std::int64_t batch, std::int64_t seq, std::int64_t limit = 0);

  std::int64_t windows() const { return windows_; }
  std::int64_t microbatches() const { return (windows_ + batch_ - 1) / batch_; }
  std::int64_t total_bytes() const { return total_bytes_; }  ///< text that all targets stand for
  std::int64_t total_targets() const { return windows_ * seq_; }
  /// Text that the targets of one microbatch stand for.
  std::int64_t bytes(std::int64_t microbatch) const;
  /// Writes [batch, seq] row-major tokens, targets (-1: ignored) and positions.
  void fill(std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
            std::int32_t* positions) const;

 private:
  TokenFile file_;
  std::int64_t batch_;
  std::int64_t seq_;
  std::int64_t windows_;
  std::int64_t total_bytes_;
};

}  // namespace weft::data
