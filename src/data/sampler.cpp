#include "data/sampler.hpp"

#include <numeric>

#include "base/check.hpp"

namespace weft::data {

std::int64_t window_count(const TokenFile& file, std::int64_t seq) {
  WEFT_EXPECT(seq > 0);
  const std::int64_t windows = (file.tokens() - 1) / seq;
  WEFT_VALIDATE(windows > 0,
                "{} has {} tokens (data.seq is {}, and a sample needs data.seq + 1); shorten data.seq or "
                "give more text",
                file.path(), file.tokens(), seq);
  return windows;
}

void copy_window(const TokenFile& file, std::int64_t seq, std::int64_t w, std::int32_t* tokens,
                 std::int32_t* targets, std::int32_t* positions) {
  file.read(w * seq, seq, tokens);
  file.read(w * seq + 1, seq, targets);
  std::iota(positions, positions + seq, 0);
}

Sampler::Sampler(TokenFile file, std::int64_t seq, std::uint64_t seed)
    : file_(std::move(file)),
      seq_(seq),
      windows_(window_count(file_, seq)),
      order_(seed, static_cast<std::uint64_t>(windows_)) {}

std::int64_t Sampler::window(std::int64_t sample) const {
  const auto epoch = static_cast<std::uint64_t>(sample / windows_);
  return static_cast<std::int64_t>(order_.at(epoch, static_cast<std::uint64_t>(sample % windows_)));
}

void Sampler::fill(std::int64_t sample, std::int32_t* tokens, std::int32_t* targets,
                   std::int32_t* positions) const {
  copy_window(file_, seq_, window(sample), tokens, targets, positions);
}

}  // namespace weft::data
