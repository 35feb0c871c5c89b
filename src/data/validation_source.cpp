#include "data/validation_source.hpp"

#include <algorithm>
#include <numeric>

#include "data/sampler.hpp"

namespace weft::data {

ValidationSource::ValidationSource(TokenFile file, std::int64_t batch, std::int64_t seq, std::int64_t limit)
    : file_(std::move(file)), batch_(batch), seq_(seq), windows_(window_count(file_, seq)) {
  if (limit > 0) windows_ = std::min(windows_, limit);
  total_bytes_ = file_.bytes_of(1, windows_ * seq_);
}

std::int64_t ValidationSource::bytes(std::int64_t microbatch) const {
  const std::int64_t first = std::min(microbatch * batch_, windows_);
  const std::int64_t last = std::min(first + batch_, windows_);
  return file_.bytes_of(first * seq_ + 1, (last - first) * seq_);
}

void ValidationSource::fill(std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
                            std::int32_t* positions) const {
  for (std::int64_t row = 0; row < batch_; ++row) {
    const std::int64_t w = microbatch * batch_ + row;
    const std::int64_t at = row * seq_;
    if (w < windows_) {
      copy_window(file_, seq_, w, tokens + at, targets + at, positions + at);
    } else {
      std::fill_n(tokens + at, seq_, 0);
      std::fill_n(targets + at, seq_, -1);
      std::iota(positions + at, positions + at + seq_, 0);
    }
  }
}

}  // namespace weft::data
