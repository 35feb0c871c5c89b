// The numbers that a short training leaves, and that may depend on neither ranks nor schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "train/trainer.hpp"

namespace weft::test {

struct Curve {
  std::vector<double> losses, norms;
  std::vector<std::int64_t> tokens;
  std::uint64_t hash = 0;  ///< hash of the state after the last step
  bool operator==(const Curve&) const = default;
};

inline Curve train_steps(train::Trainer& trainer, int steps) {
  Curve curve;
  for (int step = 0; step < steps; ++step) {
    const report::StepMetrics m = trainer.train_step();
    curve.losses.push_back(m.loss);
    curve.norms.push_back(*m.grad_norm);
    curve.tokens.push_back(m.tokens);
  }
  curve.hash = trainer.state().hash();
  return curve;
}

}  // namespace weft::test
