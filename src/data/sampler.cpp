#include "data/sampler.hpp"

#include <utility>

namespace weft::data {

Sampler::Sampler(Sequences sequences, std::uint64_t seed)
    : sequences_(std::move(sequences)), order_(seed, static_cast<std::uint64_t>(sequences_.count())) {}

std::int64_t Sampler::sequence(std::int64_t sample) const {
  const auto epoch = static_cast<std::uint64_t>(sample / sequences_.count());
  return static_cast<std::int64_t>(order_.at(epoch, static_cast<std::uint64_t>(sample % sequences_.count())));
}

void Sampler::fill(std::int64_t sample, std::int32_t* tokens, std::int32_t* targets,
                   std::int32_t* positions) const {
  sequences_.copy(sequence(sample), tokens, targets, positions);
}

}  // namespace weft::data
