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

double learning_rate(const LrCourse& course, std::int64_t step) {
  const auto& [lr, min_lr, warmup, steps, decay_steps, decay] = course;
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  switch (decay) {
    case LrDecay::constant: return lr;
    case LrDecay::linear: return std::lerp(lr, min_lr, progress(step, warmup, steps));
    case LrDecay::cosine: {
      const double p = progress(step, warmup, steps);
      return min_lr + 0.5 * (lr - min_lr) * (1.0 + portable::of_turns(p / 2).cos);
    }
    case LrDecay::wsd: {
      // A decay longer than what the warm-up leaves starts right after it.
      const std::int64_t begin = std::max(warmup, steps - decay_steps);
      return std::lerp(lr, min_lr, progress(step, begin, steps));
    }
  }
  return lr;
}

LrCourse lr_course_of(const Deck& deck) {
  const OptimizerDeck& o = deck.optimizer;
  LrCourse course;
  course.lr = o.lr;
  course.min_lr = o.min_lr;
  course.warmup = o.warmup;
  course.steps = deck.run.steps;
  course.decay_steps = o.decay_steps;
  course.decay = o.decay;
  return course;
}

StepBlock step_block(const Deck& deck, std::int64_t step) {
  const OptimizerDeck& o = deck.optimizer;
  const double lr = learning_rate(lr_course_of(deck), step);
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
