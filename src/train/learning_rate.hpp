// The learning rate as a function of the step (a linear warm-up, then one of four decays), and the step
// block.
#pragma once

#include <cstdint>

#include "base/step_block.hpp"
#include "deck/deck.hpp"

namespace weft::train {

struct LrCourse {
  double lr = 0;                 ///< peak, which the last step of the warm-up has
  double min_lr = 0;             ///< where linear, cosine and wsd end
  std::int64_t warmup = 0;       ///< steps of the warm-up
  std::int64_t steps = 1;        ///< steps of the whole run, warm-up included
  std::int64_t decay_steps = 0;  ///< wsd only: length of the final linear decay
  LrDecay decay = LrDecay::cosine;
};

/// The learning rate of `step`, counted from 0. Step s < warmup gets lr * (s + 1) / warmup. After it, with
/// p = (s - warmup) / max(1, steps - warmup): linear lr + (min_lr - lr) p; cosine min_lr + (lr - min_lr) (1 +
/// cos(pi p)) / 2 (Loshchilov & Hutter, 2017); wsd stays at lr until steps - decay_steps, then falls linearly
/// (Hu et al., 2024). Steps past the end keep the rate of step = steps, which is min_lr (constant: lr).
double learning_rate(const LrCourse& course, std::int64_t step);

LrCourse lr_course_of(const Deck& deck);

/// What the update of `step`, counted from 0, needs beside gradients and state. Adam's t is step + 1, whether
/// or not the steps before it have changed the state (bad_steps.hpp), so a checkpoint's step is all that a
/// resumed run needs.
StepBlock step_block(const Deck& deck, std::int64_t step);

}  // namespace weft::train
