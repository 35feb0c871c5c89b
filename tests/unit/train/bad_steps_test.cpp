#include "train/bad_steps.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::train {
namespace {

BadSteps with(Nonfinite policy, std::int64_t limit, NanSearch search = NanSearch::off) {
  Deck deck;
  deck.optimizer.nonfinite = policy;
  deck.optimizer.nonfinite_limit = limit;
  deck.debug.nan = search;
  return BadSteps(deck);
}

report::StepMetrics step(std::int64_t n, bool good) {
  report::StepMetrics m;
  m.step = n;
  m.loss = good ? 3 : NAN;
  m.grad_norm = good ? 1 : INFINITY;
  m.updated = good;
  return m;
}

TEST(BadSteps, StopAtTheFirst) {
  BadSteps steps = with(Nonfinite::stop, 10);
  EXPECT_EQ(steps.after(step(1, true)), std::nullopt);
  EXPECT_EQ(steps.after(step(2, false)), Nonfinite::stop);
  EXPECT_EQ(steps.describe(step(2, false)), "step 2: the loss is nan and the gradient norm inf");
}

TEST(BadSteps, AreSkippedUntilTooManyAreInARow) {
  BadSteps steps = with(Nonfinite::skip, 2);
  for (const std::int64_t first : {1, 4, 7}) {  // there is a good step between two bad ones
    EXPECT_EQ(steps.after(step(first, false)), Nonfinite::skip);
    EXPECT_EQ(steps.after(step(first + 1, false)), Nonfinite::skip);
    EXPECT_EQ(steps.describe(step(first + 1, false)),
              "step " + std::to_string(first + 1) +
                  ": the loss is nan and the gradient norm inf (2 in a row, optimizer.nonfinite_limit = 2)");
    EXPECT_EQ(steps.after(step(first + 2, true)), std::nullopt);
  }
  for (const std::int64_t n : {10, 11}) EXPECT_EQ(steps.after(step(n, false)), Nonfinite::skip);
  EXPECT_EQ(steps.after(step(12, false)), Nonfinite::stop);
}

/// What x86 makes of inf - inf has its sign set.
TEST(BadSteps, ANanIsWrittenWithoutItsSign) {
  report::StepMetrics bad = step(2, false);
  bad.loss = std::copysign(NAN, -1.0);
  bad.grad_norm = std::copysign(NAN, -1.0);
  EXPECT_EQ(with(Nonfinite::stop, 10).describe(bad), "step 2: the loss is nan and the gradient norm nan");
  bad.grad_norm = -INFINITY;
  EXPECT_EQ(with(Nonfinite::stop, 10).describe(bad), "step 2: the loss is nan and the gradient norm -inf");
}

/// Steps that are run again on the way to the bad one do not end a row of bad steps.
TEST(BadSteps, OfARollBackEndTheRowOnceTheRunIsPast) {
  BadSteps steps = with(Nonfinite::rollback, 1);
  EXPECT_EQ(steps.after(step(7, false)), Nonfinite::rollback);
  for (const std::int64_t n : {5, 6, 7}) EXPECT_EQ(steps.after(step(n, true)), std::nullopt);
  EXPECT_EQ(steps.after(step(8, false)), Nonfinite::rollback);
  for (const std::int64_t n : {5, 6, 7}) EXPECT_EQ(steps.after(step(n, true)), std::nullopt);
  EXPECT_EQ(steps.after(step(8, false)), Nonfinite::stop);
}

TEST(BadSteps, AdviceNamesTheCheckpointAndTheSearch) {
  const std::string plain = with(Nonfinite::stop, 1).advice("runs/a/checkpoints/step-00000004");
  EXPECT_NE(plain.find("debug.nan = \"locate\""), std::string::npos) << plain;
  EXPECT_NE(plain.find("resume from runs/a/checkpoints/step-00000004"), std::string::npos) << plain;
  const std::string located = with(Nonfinite::stop, 1, NanSearch::locate).advice(std::nullopt);
  EXPECT_EQ(located.find("debug.nan"), std::string::npos) << located;
  EXPECT_NE(located.find("no checkpoint was saved"), std::string::npos) << located;
}

}  // namespace
}  // namespace weft::train
