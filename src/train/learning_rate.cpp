#include "train/learning_rate.hpp"

#include <algorithm>
#include <cmath>

#include "base/portable_math.hpp"

namespace weft::train {
namespace {

/// How much of the way from step `begin` to step `end` lies behind; 0 before, 1 after.
double progress(std::int64_t step, std::int64_t begin, std::int64_t end) {
  const double p =
      static_cast<double>(step - begin) / static_cast<double>(std::max<std::int64_t>(1, end - begin));
  return std::clamp(p, 0.0, 1.0);
}

}  // namespace

double learning_rate(const Schedule& schedule, std::int64_t step) {
  const auto& [lr, min_lr, warmup, steps, decay_steps, decay] = schedule;
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  switch (decay) {
    case Decay::constant: return lr;
    case Decay::linear: return std::lerp(lr, min_lr, progress(step, warmup, steps));
    case Decay::cosine: {
      const double p = progress(step, warmup, steps);
      return min_lr + 0.5 * (lr - min_lr) * (1.0 + portable::of_turns(p / 2).cos);
    }
    case Decay::wsd: {
      // A decay longer than what the warm-up leaves starts right after it.
      const std::int64_t begin = std::max(warmup, steps - decay_steps);
      return std::lerp(lr, min_lr, progress(step, begin, steps));
    }
  }
  return lr;
}

Schedule schedule_of(const Deck& deck) {
  const OptimizerDeck& o = deck.optimizer;
  Schedule s;
  s.lr = o.lr;
  s.min_lr = o.min_lr;
  s.warmup = o.warmup;
  s.steps = deck.run.steps;
  s.decay_steps = o.decay_steps;
  s.decay = o.decay;
  return s;
}

StepBlock step_block(const Deck& deck, std::int64_t step) {
  const OptimizerDeck& o = deck.optimizer;
  const double lr = learning_rate(schedule_of(deck), step);
  const auto t = static_cast<double>(step + 1);
  StepBlock block;
  block.lr = static_cast<float>(lr);
  block.decay = static_cast<float>(1 - lr * o.weight_decay);
  block.step_size = static_cast<float>(lr / (1 - portable::pow(o.beta1, t)));
  block.bias2_sqrt = static_cast<float>(std::sqrt(1 - portable::pow(o.beta2, t)));
  block.step = static_cast<std::int32_t>(step + 1);
  return block;
}

}  // namespace weft::train
