// Tests the initial weights: N(0, std), norms one, and the matrices that write to the residual stream scaled
// down.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"
#include "train/trainer.hpp"

namespace weft {
namespace {

constexpr double init_std = 0.03;
constexpr double layers = 2;

class Initial : public ::testing::Test {
 protected:
  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    for (const Unit& unit : trainer_.state().units())
      all.insert(all.end(), unit.parameters.begin(), unit.parameters.end());
    return all;
  }
  std::vector<float> values(const std::string& path) { return trainer_.state().parameter(path); }

  const std::unique_ptr<comm::World> world_ = comm::make_self_world();
  train::Trainer trainer_{
      test::small_deck({"model.init_std=0.03", "model.dim=128", "model.ffn=300", "model.vocab=500"}),
      *world_};
};

double expected_std(const std::string& path) {
  return path.ends_with(".wo") || path.ends_with(".w2") ? init_std / std::sqrt(2 * layers) : init_std;
}

TEST_F(Initial, NormsAreOne) {
  int norms = 0;
  for (const Parameter& p : parameters())
    if (p.shape.size() == 1) {
      ++norms;
      const std::vector<float> w = values(p.path);
      EXPECT_TRUE(std::all_of(w.begin(), w.end(), [](float x) { return x == 1.0F; })) << p.path;
    }
  EXPECT_EQ(norms, 2 * layers + 1);
}

/// Mean, variance, and the largest distance from the normal distribution function (Kolmogorov and Smirnov)
/// are each within five standard errors (for the third: a chance of 1e-9).
TEST_F(Initial, MatricesAreNormal) {
  int matrices = 0;
  for (const Parameter& p : parameters()) {
    if (p.shape.size() == 1) continue;
    ++matrices;
    SCOPED_TRACE(p.path);
    std::vector<float> w = values(p.path);
    const auto n = static_cast<double>(w.size());
    const double std = expected_std(p.path);
    double mean = 0, variance = 0;
    for (const float x : w) mean += x / n;
    for (const float x : w) variance += (x - mean) * (x - mean) / n;
    EXPECT_NEAR(mean, 0, 5 * std / std::sqrt(n));
    EXPECT_NEAR(variance, std * std, 5 * std * std * std::sqrt(2 / n));
    std::sort(w.begin(), w.end());
    double distance = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double below = 0.5 * std::erfc(-w[i] / std / std::sqrt(2.0));
      distance =
          std::max({distance, below - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - below});
    }
    EXPECT_LT(distance, std::sqrt(-0.5 * std::log(0.5e-9) / n));
  }
  EXPECT_EQ(matrices, 7 * layers + 2);
}

/// No two parameters have the same numbers, nor have neighbours in one.
TEST_F(Initial, DrawsAreIndependent) {
  const auto correlation = [](const std::vector<float>& a, const std::vector<float>& b, std::size_t shift) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i + shift < std::min(a.size(), b.size()); ++i) {
      ab += static_cast<double>(a[i]) * b[i + shift];
      aa += static_cast<double>(a[i]) * a[i];
      bb += static_cast<double>(b[i + shift]) * b[i + shift];
    }
    return ab / std::sqrt(aa * bb);
  };
  std::vector<std::vector<float>> matrices;
  for (const Parameter& p : parameters())
    if (p.shape.size() == 2) matrices.push_back(values(p.path));
  ASSERT_EQ(matrices.size(), 7 * layers + 2);
  for (std::size_t i = 0; i < matrices.size(); ++i)
    for (std::size_t j = i; j < matrices.size(); ++j) {
      const auto n = static_cast<double>(std::min(matrices[i].size(), matrices[j].size()));
      EXPECT_LT(std::abs(correlation(matrices[i], matrices[j], i == j ? 1 : 0)), 5 / std::sqrt(n))
          << i << " and " << j;
    }
}

TEST(InitialWeights, DependOnTheSeedOnly) {
  const auto world = comm::make_self_world();
  const auto hash = [&](const char* set) {
    return train::Trainer(test::small_deck({set}), *world).state().hash();
  };
  EXPECT_EQ(hash("run.seed=7"), hash("data.seq=12"));
  EXPECT_NE(hash("run.seed=7"), hash("run.seed=8"));
  EXPECT_NE(hash("run.seed=7"), hash("model.init_std=0.021"));
}

}  // namespace
}  // namespace weft
