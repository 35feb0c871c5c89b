#include "data/sampler.hpp"

#include <utility>

namespace weft::data {

Sampler::Sampler(Windows windows, std::uint64_t seed)
    : windows_(std::move(windows)), order_(seed, static_cast<std::uint64_t>(windows_.count())) {}

std::int64_t Sampler::window(std::int64_t sample) const {
  const auto epoch = static_cast<std::uint64_t>(sample / windows_.count());
  return static_cast<std::int64_t>(order_.at(epoch, static_cast<std::uint64_t>(sample % windows_.count())));
}

void Sampler::fill(std::int64_t sample, std::int32_t* tokens, std::int32_t* targets,
                   std::int32_t* positions) const {
  windows_.copy(window(sample), tokens, targets, positions);
}

}  // namespace weft::data
