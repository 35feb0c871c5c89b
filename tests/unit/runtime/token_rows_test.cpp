// Tests the memory of the rows that ranks tell each other: it is planned, and is the same for few ranks and
// for many.
#include "runtime/token_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "compile/programs.hpp"
#include "runtime/planned_memory.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"

namespace weft::runtime {
namespace {

constexpr std::int64_t vocab = 128256, rounds = 3;

plan::Plan plan_on(int ranks, const std::string& disable) {
  const Deck deck = test::small_deck({"model.vocab=" + std::to_string(vocab), "model.dim=256",
                                      "data.global_batch=" + std::to_string(rounds * ranks),
                                      "schedule.disable=" + disable});
  return compile::training_plan(
      deck, resolve_mesh(deck, ranks), [](const ir::Graph&, const ir::Node&) { return 0; },
      compile::pass_options(deck, resolve_mesh(deck, ranks)));
}

TEST(TokenRows, MemoryDoesNotGrowWithTheRanks) {
  for (const int ranks : {2, 3, 64, 1024, 16384}) {
    const std::int64_t bytes = TokenRows::planned_bytes(plan_on(ranks, "[]"));
    // These are this rank's bits, those that it tells, and those that it hears; the last two have up to two
    // unfilled bytes for each rank.
    EXPECT_GE(bytes, 3 * rounds * vocab / 8) << ranks;
    EXPECT_LE(bytes, 3 * rounds * (vocab / 8 + 2) + 2 * rounds * (2 * ranks + 256)) << ranks;
  }
}

TEST(TokenRows, MemoryIsInTheBaselineOfThePlan) {
  const Deck deck = test::small_deck({"schedule.cuda_graph=off"});
  const plan::Plan with = plan_on(64, "[]"), without = plan_on(64, "[\"rows\"]");
  ASSERT_EQ(TokenRows::planned_bytes(without), 0);
  EXPECT_EQ(planned_memory(deck, with, nullptr, 0, 1).baseline -
                planned_memory(deck, without, nullptr, 0, 1).baseline,
            TokenRows::planned_bytes(with));
}

/// A stage that is the embedding alone shares a gather over the last rounds, where no rows are told. Each
/// round still has its place, because the tokens of each are noted.
TEST(TokenRows, HaveAPlaceForRoundsThatSendNone) {
  constexpr int all = 25;
  const Deck deck =
      test::small_deck({"model.layers=3", "model.vocab=" + std::to_string(vocab),
                        "data.global_batch=" + std::to_string(2 * all), "schedule.disable=[\"share\"]",
                        "schedule.accumulate=once", "parallel.mesh={ data = 2, pipe = 2 }",
                        "pipeline={ schedule = \"interleaved\", chunks = 2, layers = [0, 1, 1, 1] }"});
  const Mesh mesh = resolve_mesh(deck, 4);
  const plan::Plan plan = compile::training_plan(
      deck, mesh, [](const ir::Graph&, const ir::Node&) { return 0; }, compile::pass_options(deck, mesh));
  int last = 0;
  std::int64_t rows = 0;
  for (const ir::Node& node : plan.graph.nodes())
    if (node.attributes.has(ir::Attr::used)) {
      last = std::max(last, node.round);
      rows = plan.graph.unit(plan.graph.value(node.outputs.front()).unit).elements /
             node.attributes.integer(ir::Attr::row);
    }
  ASSERT_EQ(plan.graph.rounds(), all);
  ASSERT_LT(last, all - 1) << "the last rounds tell rows, and this test shows nothing";
  EXPECT_GE(TokenRows::planned_bytes(plan), 3 * all * (rows / 8));
}

}  // namespace
}  // namespace weft::runtime
