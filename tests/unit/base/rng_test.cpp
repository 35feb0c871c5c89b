// Tests random numbers: the known answers of Philox, and the distribution of the normal draws.
// portable_math_test.cpp tests their bits.
#include "base/rng.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace weft {
namespace {

/// The answers are from Random123's kat_vectors.
TEST(Philox, KnownAnswers) {
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox(0, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ULL, ~0ULL, ~0ULL), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

constexpr int count = 1 << 20;

std::vector<double> normal_draws() {
  const RandomStream stream(11, "rng_test");
  std::vector<double> x(count);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = stream.normal(i);
  return x;
}

double normal_below(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

/// Each moment lies within five standard errors of the normal distribution's: 0, 1, 0, 3, 0, 15.
TEST(NormalDraws, HaveTheMomentsOfTheNormalDistribution) {
  const std::vector<double> x = normal_draws();
  const double moments[] = {0, 1, 0, 3, 0, 15}, squares[] = {1, 3, 15, 105, 945, 10395};
  for (int k = 1; k <= 6; ++k) {
    double sum = 0;
    for (const double v : x) sum += std::pow(v, k);
    const double expected = moments[k - 1], deviation = std::sqrt(squares[k - 1] - expected * expected);
    EXPECT_NEAR(sum / count, expected, 5 * deviation / std::sqrt(count)) << "moment " << k;
  }
}

/// By Kolmogorov and Smirnov, the chance to be above 2.5 over the root of the count is 1e-5.
TEST(NormalDraws, HaveTheNormalDistributionFunction) {
  std::vector<double> x = normal_draws();
  std::sort(x.begin(), x.end());
  double worst = 0;
  for (int i = 0; i < count; ++i)
    worst = std::max(worst, std::abs(normal_below(x[static_cast<std::size_t>(i)]) - (i + 0.5) / count));
  EXPECT_LT(worst * std::sqrt(count), 2.5);
}

TEST(NormalDraws, HaveTheTailsOfTheNormalDistribution) {
  const std::vector<double> x = normal_draws();
  for (const double limit : {2.0, 3.0, 4.0})
    for (const double sign : {-1.0, 1.0}) {
      const double expected = count * normal_below(-limit);
      const auto beyond = std::count_if(x.begin(), x.end(), [&](double v) { return sign * v > limit; });
      EXPECT_NEAR(static_cast<double>(beyond), expected, 5 * std::sqrt(expected)) << sign * limit;
    }
}

TEST(NormalDraws, NeighboursAreIndependent) {
  const std::vector<double> x = normal_draws();
  for (const std::size_t distance : {1U, 2U, 64U}) {
    double sum = 0;
    for (std::size_t i = distance; i < x.size(); ++i) sum += x[i] * x[i - distance];
    EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count)) << distance;
  }
}

}  // namespace
}  // namespace weft
