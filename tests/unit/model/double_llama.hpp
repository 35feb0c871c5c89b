// The Llama once more, forward only and in double, made of the reference kernels. Finite differences in fp64
// can be taken of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/spec.hpp"

namespace weft::test {

struct DoubleLlama {
  model::Spec spec;
  double rope_theta = 10000;
  std::int64_t batch = 1, seq = 1;
  std::map<std::string, std::vector<double>> weights;  ///< by module path

  /// The sum of -log p over the valid targets. Both arguments are [batch, seq].
  double loss_sum(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& targets) const;
};

}  // namespace weft::test
