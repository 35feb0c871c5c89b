// Makes sequences in which different numbers of targets count, from none to all.
#pragma once

#include <cstdint>

#include "base/rng.hpp"
#include "data/batch_source.hpp"

namespace weft::test {

class UnevenBatches : public data::BatchSource {
 public:
  UnevenBatches(const data::BatchShape& shape, std::int64_t vocab)
      : shape_(shape), vocab_(static_cast<std::uint64_t>(vocab)) {}

  /// What sample s holds does not depend on the microbatch that it falls into.
  void fill(std::int64_t step, std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
            std::int32_t* positions) const override {
    const RandomStream stream(11, "uneven");
    for (std::int64_t row = 0; row < shape_.batch; ++row) {
      const std::int64_t sample = step * shape_.global_batch + microbatch * shape_.batch + row;
      for (std::int64_t t = 0; t < shape_.seq; ++t) {
        const std::int64_t i = row * shape_.seq + t;
        const auto draw = [&](std::int64_t place) {
          return static_cast<std::int32_t>(
              stream.bits(static_cast<std::uint64_t>(sample * (shape_.seq + 1) + place)) % vocab_);
        };
        tokens[i] = draw(t);
        targets[i] = t < valid(sample) ? draw(t + 1) : -1;
        positions[i] = static_cast<std::int32_t>(t);
      }
    }
  }

  /// How many targets count in a sample: 0, ..., seq in turn, in an order that differs from step to step.
  std::int64_t valid(std::int64_t sample) const {
    constexpr std::int64_t shares[] = {4, 0, 1, 3, 2};
    return shape_.seq * shares[sample % 5] / 4;
  }

  /// How many targets count in a step.
  std::int64_t valid_in_step(std::int64_t step) const {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < shape_.global_batch; ++i) n += valid(step * shape_.global_batch + i);
    return n;
  }

 private:
  data::BatchShape shape_;
  std::uint64_t vocab_;
};

}  // namespace weft::test
