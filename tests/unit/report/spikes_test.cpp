#include "report/spikes.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace weft::report {
namespace {

constexpr double threshold = 8;  // the deck's default

/// A falling curve with noise, from 10 to about 3, like a small model's first two thousand steps.
std::vector<double> falling(int seed, double noise, int steps = 2000) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<double> normal(0, noise);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(3 + 7 * std::exp(-i / 150.0) + normal(random));
  return losses;
}

/// The steps that are found to be spikes.
std::vector<std::size_t> flagged(const std::vector<double>& losses, double at = threshold) {
  Spikes spikes(at);
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (spikes.add(losses[i])) steps.push_back(i);
  return steps;
}

using Steps = std::vector<std::size_t>;

TEST(Spikes, ANoisyFallingCurveHasNone) {
  for (int seed = 0; seed < 8; ++seed)
    for (const double noise : {0.0, 0.003, 0.03, 0.3})
      EXPECT_EQ(flagged(falling(seed, noise)), Steps{}) << seed << ' ' << noise;
}

TEST(Spikes, OneIsFlaggedWhereItBegins) {
  for (int seed = 0; seed < 20; ++seed) {
    std::vector<double> losses = falling(seed, 0.03);
    for (std::size_t i = 0; i < 30; ++i) losses[1200 + i] += 2 * std::exp(-static_cast<double>(i) / 8);
    EXPECT_EQ(flagged(losses), Steps{1200}) << seed;
  }
}

TEST(Spikes, OneStepIsEnoughAndTheNextIsFlaggedAgain) {
  std::vector<double> losses = falling(1, 0.03);
  losses[1000] += 1;
  losses[1010] += 1;
  EXPECT_EQ(flagged(losses), (Steps{1000, 1010}));
}

TEST(Spikes, ANewLevelIsFlaggedOnce) {
  std::vector<double> losses = falling(2, 0.03);
  for (std::size_t i = 1000; i < losses.size(); ++i) losses[i] += 1.5;
  EXPECT_EQ(flagged(losses), Steps{1000});
}

TEST(Spikes, TheThresholdDecides) {
  std::vector<double> losses;
  for (int i = 0; i < 120; ++i) losses.push_back(3 + 0.03 * (i % 3 - 1));  // their deviation is 0.044
  losses[100] = 3.25;
  EXPECT_EQ(flagged(losses), Steps{});
  EXPECT_EQ(flagged(losses, 4), Steps{100});
  losses[100] = 100;
  EXPECT_EQ(flagged(losses, 0), Steps{});
}

TEST(Spikes, NothingIsFlaggedWithoutAWindowAndNumbersThatAreNotFiniteDoNotCount) {
  std::vector<double> losses(Spikes::history - 1, 3.0);
  losses.push_back(30);
  EXPECT_EQ(flagged(losses), Steps{});
  losses.insert(losses.begin(), 3.0);
  EXPECT_EQ(flagged(losses), Steps{Spikes::history});
  losses.insert(losses.begin(), 20, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(flagged(losses), Steps{Spikes::history + 20});
  losses.back() = std::numeric_limits<double>::infinity();
  EXPECT_EQ(flagged(losses), Steps{});
}

TEST(Spikes, SayWhatWasBefore) {
  Spikes spikes(threshold);
  for (std::size_t i = 0; i < Spikes::history; ++i) EXPECT_FALSE(spikes.add(i % 2 == 0 ? 3.1 : 2.9));
  const auto spike = spikes.add(8);
  ASSERT_TRUE(spike);
  EXPECT_NEAR(spike->median, 3, 0.11);
  EXPECT_GT(spike->deviation, 0);
}

}  // namespace
}  // namespace weft::report
