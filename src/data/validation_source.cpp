#include "data/validation_source.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft::data {

ValidationSource::ValidationSource(Sequences sequences, std::int64_t batch, std::int64_t limit)
    : sequences_(std::move(sequences)), batch_(batch), count_(sequences_.count()) {
  if (limit > 0) count_ = std::min(count_, limit);
  total_bytes_ = sequences_.target_bytes(0, count_);
}

std::int64_t ValidationSource::bytes(std::int64_t microbatch) const {
  const std::int64_t first = std::min(microbatch * batch_, count_);
  return sequences_.target_bytes(first, std::min(first + batch_, count_));
}

void ValidationSource::fill(std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
                            std::int32_t* positions) const {
  const std::int64_t seq = sequences_.seq();
  for (std::int64_t row = 0; row < batch_; ++row) {
    const std::int64_t w = microbatch * batch_ + row;
    const std::int64_t at = row * seq;
    if (w < count_) {
      sequences_.copy(w, tokens + at, targets + at, positions + at);
    } else {
      std::fill_n(tokens + at, seq, 0);
      std::fill_n(targets + at, seq, -1);
      std::iota(positions + at, positions + at + seq, 0);
    }
  }
}

}  // namespace weft::data
