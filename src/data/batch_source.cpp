#include "data/batch_source.hpp"

#include <numeric>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace weft::data {
namespace {

std::int64_t sample_of(const BatchShape& shape, std::int64_t step, std::int64_t microbatch,
                       std::int64_t row) {
  return step * shape.global_batch + microbatch * shape.batch + row;
}

class FileBatches final : public BatchSource {
 public:
  FileBatches(Sampler sampler, const BatchShape& shape) : sampler_(std::move(sampler)), shape_(shape) {
    WEFT_EXPECT(sampler_.seq() == shape.seq);
  }
  void fill(std::int64_t step, std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
            std::int32_t* positions) const override {
    for (std::int64_t row = 0; row < shape_.batch; ++row) {
      const std::int64_t at = row * shape_.seq;
      sampler_.fill(sample_of(shape_, step, microbatch, row), tokens + at, targets + at, positions + at);
    }
  }

 private:
  Sampler sampler_;
  BatchShape shape_;
};

class SyntheticBatches final : public BatchSource {
 public:
  SyntheticBatches(std::uint64_t seed, std::int64_t vocab, const BatchShape& shape)
      : random_(seed, "data.synthetic"), vocab_(static_cast<std::uint64_t>(vocab)), shape_(shape) {}
  void fill(std::int64_t step, std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
            std::int32_t* positions) const override {
    for (std::int64_t row = 0; row < shape_.batch; ++row) {
      const std::int64_t sample = sample_of(shape_, step, microbatch, row);
      const std::int64_t at = row * shape_.seq;
      tokens[at] = token(sample, 0);
      for (std::int64_t p = 0; p < shape_.seq; ++p) {
        targets[at + p] = token(sample, p + 1);
        if (p + 1 < shape_.seq) tokens[at + p + 1] = targets[at + p];
      }
      std::iota(positions + at, positions + at + shape_.seq, 0);
    }
  }

 private:
  std::int32_t token(std::int64_t sample, std::int64_t position) const {
    const auto bits = random_.bits(static_cast<std::uint64_t>(sample * (shape_.seq + 1) + position));
    return static_cast<std::int32_t>(((bits >> 32) * vocab_) >> 32);
  }

  RandomStream random_;
  std::uint64_t vocab_;
  BatchShape shape_;
};

}  // namespace

std::unique_ptr<BatchSource> file_batches(Sampler sampler, const BatchShape& shape) {
  return std::make_unique<FileBatches>(std::move(sampler), shape);
}

std::unique_ptr<BatchSource> synthetic_batches(std::uint64_t seed, std::int64_t vocab,
                                               const BatchShape& shape) {
  return std::make_unique<SyntheticBatches>(seed, vocab, shape);
}

}  // namespace weft::data
