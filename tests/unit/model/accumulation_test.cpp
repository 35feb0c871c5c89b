// Tests that microbatches with unequal numbers of valid targets are one large batch, cut up.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"
#include "train/trainer.hpp"
#include "unit/model/uneven_batches.hpp"

namespace weft {
namespace {

constexpr int steps = 5;

struct Result {
  std::vector<double> losses, norms;
  std::vector<std::int64_t> tokens, expected_tokens;
  std::vector<std::vector<float>> parameters;
};

/// eps is large, so that Adam does not make rounding noise large where a gradient is nearly zero.
Result train(std::int64_t batch) {
  const Deck deck =
      test::small_deck({fmt::format("data.batch={}", batch), "data.global_batch=4", "optimizer.eps=1e-4"});
  const test::UnevenBatches batches({batch, 4, deck.data.seq}, deck.model.vocab);
  const auto world = comm::make_self_world();
  train::Trainer trainer(deck, *world, std::make_unique<test::UnevenBatches>(batches));
  Result result;
  for (int step = 0; step < steps; ++step) {
    const report::StepMetrics m = trainer.train_step();
    result.losses.push_back(m.loss);
    result.norms.push_back(*m.grad_norm);
    result.tokens.push_back(m.tokens);
    result.expected_tokens.push_back(batches.valid_in_step(step));
  }
  for (const Unit& unit : trainer.state().units())
    for (const Parameter& p : unit.parameters) result.parameters.push_back(trainer.state().parameter(p.path));
  return result;
}

class Accumulation : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(Accumulation, IsOneLargeBatch) {
  const Result whole = train(4), parts = train(GetParam());
  EXPECT_EQ(whole.tokens, whole.expected_tokens);
  EXPECT_EQ(parts.tokens, whole.expected_tokens);
  for (std::size_t step = 0; step < steps; ++step) {
    EXPECT_NEAR(parts.losses[step], whole.losses[step], 1e-6 * whole.losses[step]) << "step " << step;
    EXPECT_NEAR(parts.norms[step], whole.norms[step], 1e-6 * whole.norms[step]) << "step " << step;
  }
  for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
    double difference = 0, norm = 0;
    for (std::size_t j = 0; j < whole.parameters[i].size(); ++j) {
      difference += std::pow(static_cast<double>(parts.parameters[i][j]) - whole.parameters[i][j], 2);
      norm += std::pow(static_cast<double>(whole.parameters[i][j]), 2);
    }
    EXPECT_LT(std::sqrt(difference / norm), 2e-6) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, Accumulation, ::testing::Values(1, 2));

}  // namespace
}  // namespace weft
