// Tests embeddings of which only the rows that tokens name are sent: what the pass marks, and what it leaves
// alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/cost.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Attr;

struct Rows : test::SmallModel {
  Rows() { options.rows = true; }
  /// The marked collectives as text: "all_gather embed" and so on.
  std::vector<std::string> marked() const {
    std::vector<std::string> names;
    const ir::Graph graph = step();
    for (const ir::Node& node : graph.nodes())
      if (node.attributes.has(Attr::used)) names.push_back(std::string(name_of(node.op)) + " " + node.module);
    return names;
  }
};

using Names = std::vector<std::string>;

TEST(Rows, AreSentOfTheEmbeddingOnly) {
  Rows m;
  m.rounds = 2;
  m.options.disable = {"order"};
  EXPECT_EQ(m.marked(),
            Names({"all_gather embed", "reduce_scatter embed", "all_gather embed", "reduce_scatter embed"}));
  m.options.buckets = passes::Buckets{{0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}};
  EXPECT_EQ(m.marked().size(), 4U) << "they stay by themselves";
  for (const ShardMode mode : {ShardMode::ddp, ShardMode::zero1, ShardMode::zero2}) {
    m.options.shard.mode = mode;
    EXPECT_EQ(m.marked(), Names({"reduce_scatter embed", "reduce_scatter embed"}));
  }
}

TEST(Rows, AreNotSentInValidation) {
  const Rows m;
  const ir::Graph graph = passes::run(passes::forward_passes(m.options), m.forward());
  EXPECT_NE(std::ranges::count(graph.nodes(), ir::Op::all_gather, &ir::Node::op), 0);
  for (const ir::Node& node : graph.nodes()) EXPECT_FALSE(node.attributes.has(Attr::used)) << node.module;
}

TEST(Rows, AreAnEstimateOfEvenTokens) {
  const Rows m;
  const ir::Graph graph = m.step();
  int estimates = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (!node.attributes.has(Attr::used)) continue;
    ++estimates;
    EXPECT_EQ(node.attributes.integer(Attr::row), 64);
    const double used = 1 - std::pow(1 - 1.0 / 300, 2 * 16);  // the tokens of one rank
    EXPECT_NEAR(node.attributes.real(Attr::used), used, 1e-4);
    EXPECT_NEAR(static_cast<double>(ops::wire_bytes(graph, node)),
                used / 2 * static_cast<double>(ops::payload_bytes(graph, node)), 10);
  }
  EXPECT_EQ(estimates, 2) << "a gather and a reduction";
}

TEST(Rows, AreNotSentWhereWholeTablesAreNeeded) {
  Rows tied;
  tied.spec.tie_embeddings = true;
  EXPECT_EQ(tied.marked(), Names({"all_gather embed"})) << "the head gathers it again, whole";
  tied.options.shard.keep_units = 10;
  EXPECT_EQ(tied.marked(), Names());
  Rows once;
  once.rounds = 2;
  once.options.shard.accumulation = Accumulation::once;
  EXPECT_EQ(once.marked(), Names({"all_gather embed", "all_gather embed"}));
  Rows team;
  team.team = 2;
  EXPECT_EQ(team.marked(), Names());
  Rows alone;
  alone.ranks = 1;
  EXPECT_EQ(alone.marked(), Names());
  Rows off;
  off.options.disable = {"rows"};
  EXPECT_EQ(off.marked(), Names());
}

}  // namespace
}  // namespace weft
