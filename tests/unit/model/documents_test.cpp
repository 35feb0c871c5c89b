// Tests that documents in one sequence (data.document_mask) give what each of them gives by itself.
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"
#include "unit/model/one_rank.hpp"

namespace weft {
namespace {

using test::OneRank;

constexpr int seq = 40, first_length = 23;

Deck deck_of(const std::vector<std::string>& more) {
  std::vector<std::string> sets{"data.seq=40", "data.synthetic=false", "data.train=none.bin"};
  sets.insert(sets.end(), more.begin(), more.end());
  return test::small_deck(sets);
}

std::unique_ptr<OneRank> model_of(const Deck& deck) {
  auto model = std::make_unique<OneRank>(deck, OneRank::Program::training);
  for (const Unit& unit : model->units())
    for (const Parameter& p : unit.parameters) {
      const RandomStream stream(5, p.path);
      std::vector<float> values(static_cast<std::size_t>(element_count(p.shape)));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>((p.shape.size() == 1 ? 1.0 : 0.0) + 0.2 * stream.normal(i));
      model->set_parameter(p.path, values);
    }
  model->publish();
  return model;
}

class Documents : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Documents, SideBySideAreWhatTheyAreAlone) {
  std::vector<std::int32_t> tokens, targets, positions;
  const RandomStream stream(9, "tokens");
  for (int i = 0; i < seq; ++i) {
    const auto draw = 2 * static_cast<std::uint64_t>(i);
    tokens.push_back(static_cast<std::int32_t>(stream.bits(draw) % 300));
    targets.push_back(static_cast<std::int32_t>(stream.bits(draw + 1) % 300));
    positions.push_back(i < first_length ? i : i - first_length);
  }
  std::vector<std::string> packed{"data.batch=1", "data.global_batch=1", "data.document_mask=true"};
  std::vector<std::string> apart{"data.batch=2", "data.global_batch=2"};
  packed.insert(packed.end(), GetParam().begin(), GetParam().end());
  apart.insert(apart.end(), GetParam().begin(), GetParam().end());
  const auto together = model_of(deck_of(packed)), alone = model_of(deck_of(apart));
  together->run(tokens, targets, positions);

  // Each document has a sequence here. The tokens behind it are seen by none before them, and are not
  // counted.
  std::vector<std::int32_t> padded(2 * seq, 7), counted(2 * seq, -1);
  for (int i = 0; i < seq; ++i) {
    const auto at = static_cast<std::size_t>(i < first_length ? i : seq + i - first_length);
    padded[at] = tokens[static_cast<std::size_t>(i)];
    counted[at] = targets[static_cast<std::size_t>(i)];
  }
  alone->run(padded, counted);
  EXPECT_EQ(together->report()[3], seq);
  EXPECT_EQ(alone->report()[3], seq);
  EXPECT_NEAR(together->report()[2], alone->report()[2], 2e-6f * alone->report()[2]);
  EXPECT_NEAR(together->report()[0], alone->report()[0], 2e-5f * alone->report()[0]);

  // The mask matters, because without it the second document would read the first.
  together->run(tokens, targets);
  EXPECT_GT(std::abs(together->report()[2] - alone->report()[2]), 1e-3f);
}

INSTANTIATE_TEST_SUITE_P(Models, Documents,
                         ::testing::Values(std::vector<std::string>{},
                                           std::vector<std::string>{"schedule.disable=fuse"},
                                           std::vector<std::string>{"schedule.recompute=full"}));

}  // namespace
}  // namespace weft
