// Compares gradients of the whole model with finite differences.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.hpp"
#include "compile/programs.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"
#include "unit/model/double_llama.hpp"
#include "unit/model/one_rank.hpp"

namespace weft {
namespace {

using test::DoubleLlama;
using test::OneRank;

/// The tolerance, relative to the largest element of a parameter's gradient. It is fp32 rounding, to which
/// these weights are sensitive: the worst element is off by 5e-6, and PyTorch's in fp32 by 2.5e-6. The error
/// of the differences themselves is below 1e-8.
constexpr double tolerance = 1e-5;
constexpr std::int64_t samples_per_parameter = 10;
constexpr double difference_step = 1e-5;

Deck tiny_deck(const std::vector<std::string>& changes) {
  std::vector<std::string> sets{
      "model.dim=16",   "model.layers=2", "model.heads=4", "model.kv_heads=2",     "model.ffn=24",
      "model.vocab=29", "data.seq=9",     "data.batch=2",  "model.rope_theta=100", "data.global_batch=2"};
  sets.insert(sets.end(), changes.begin(), changes.end());
  return test::small_deck(sets);
}

/// Weights that make every part matter: attention that chooses, gates that saturate, norms that differ.
std::vector<float> random_weights(const Parameter& p) {
  const RandomStream stream(5, p.path);
  std::vector<float> values(static_cast<std::size_t>(element_count(p.shape)));
  const bool is_norm = p.shape.size() == 1;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((is_norm ? 1.0 : 0.0) + (is_norm ? 0.2 : 0.4) * stream.normal(i));
  return values;
}

struct Sequences {
  std::vector<std::int32_t> tokens, targets;
};
/// Tokens and targets, of which the first sequence has three targets that do not count.
Sequences sequences(const Deck& deck) {
  const RandomStream stream(9, "tokens");
  Sequences s;
  const auto draw = [&](std::uint64_t i) {
    return static_cast<std::int32_t>(stream.bits(i) % static_cast<std::uint64_t>(deck.model.vocab));
  };
  for (std::int64_t i = 0; i < deck.data.batch * deck.data.seq; ++i) {
    s.tokens.push_back(draw(static_cast<std::uint64_t>(2 * i)));
    s.targets.push_back(i % 3 == 1 && i < deck.data.seq ? -1 : draw(static_cast<std::uint64_t>(2 * i + 1)));
  }
  return s;
}

/// The elements of a parameter that are looked at: its ends, and some between.
std::vector<std::size_t> sample(const Parameter& p) {
  const RandomStream stream(3, p.path);
  const auto n = static_cast<std::uint64_t>(element_count(p.shape));
  std::vector<std::size_t> chosen{0, n - 1};
  for (std::uint64_t i = 2; i < samples_per_parameter; ++i) chosen.push_back(stream.bits(i) % n);
  return chosen;
}

class Gradients : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Gradients, AreFiniteDifferences) {
  const Deck deck = tiny_deck(GetParam());
  const Sequences s = sequences(deck);
  OneRank weft(deck, OneRank::Program::training);
  DoubleLlama reference{compile::spec_of(deck), deck.model.rope_theta, deck.data.batch, deck.data.seq, {}};
  for (const Unit& unit : weft.units())
    for (const Parameter& p : unit.parameters) {
      const std::vector<float> values = random_weights(p);
      weft.set_parameter(p.path, values);
      reference.weights[p.path].assign(values.begin(), values.end());
    }
  weft.publish();
  weft.run(s.tokens, s.targets);
  const double loss = reference.loss_sum(s.tokens, s.targets), count = weft.report()[3];
  EXPECT_EQ(count, 15);
  EXPECT_NEAR(weft.report()[2] * count, loss, 1e-6 * loss);

  for (const Unit& unit : weft.units())
    for (const Parameter& p : unit.parameters) {
      SCOPED_TRACE(p.path);
      const std::vector<float> gradient = weft.gradient(unit, p);
      double largest = 0;
      for (const float g : gradient) largest = std::max(largest, std::abs(static_cast<double>(g)));
      EXPECT_GT(largest, 1e-2) << "nothing to compare";
      for (const std::size_t i : sample(p)) {
        double& w = reference.weights[p.path][i];
        const double kept = w;
        w = kept + difference_step;
        const double above = reference.loss_sum(s.tokens, s.targets);
        w = kept - difference_step;
        const double below = reference.loss_sum(s.tokens, s.targets);
        w = kept;
        EXPECT_NEAR(gradient[i], (above - below) / (2 * difference_step), tolerance * largest)
            << "element " << i;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Gradients,
                         ::testing::Values(std::vector<std::string>{},
                                           std::vector<std::string>{"model.tie_embeddings=true"},
                                           std::vector<std::string>{"model.layers=1", "model.kv_heads=1",
                                                                    "model.tie_embeddings=true"},
                                           std::vector<std::string>{"model.layers=1", "model.kv_heads=4"}));

}  // namespace
}  // namespace weft
