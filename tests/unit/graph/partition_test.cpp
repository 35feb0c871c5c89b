// Tests a tensor axis as graphs and plans: what a rank has, what it sends, and in which order.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "needed_waits.hpp"
#include "ops/cost.hpp"
#include "passes/collectives.hpp"
#include "plan/plan.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Node;
using ir::Op;
using ir::Phase;
using test::SmallModel;

SmallModel model_of(int tensor, int kv_heads = 4) {
  SmallModel model;
  model.spec.heads = 4;
  model.spec.kv_heads = kv_heads;
  model.tensor = tensor;
  model.options.partition = true;
  return model;
}

/// Whatever the axis, each element of a parameter is on as many ranks as its unit has copies.
TEST(Partition, EveryElementIsWhereTheTableSays) {
  for (const int kv_heads : {1, 2, 4})
    for (const int ranks : {2, 4}) {
      const std::vector<Unit> whole_units = model::units(model_of(ranks, kv_heads).spec);
      const std::vector<Unit> units = passes::partitioned(whole_units, ranks);
      std::map<std::string, std::vector<int>> held;  // by parameter: on how many ranks each element is
      std::set<std::string> paths;
      for (const Unit& unit : units) {
        EXPECT_TRUE(paths.insert(unit.path).second) << unit.path;
        std::int64_t offset = 0;
        for (const Parameter& p : unit.parameters) {
          EXPECT_EQ(p.offset, offset) << p.path;
          offset += element_count(p.shape);
          auto& counts = held[p.path];
          counts.resize(static_cast<std::size_t>(element_count(whole(p).shape)));
          for (int rank = 0; rank < ranks; ++rank)
            for (std::int64_t i = 0; i < element_count(p.shape); ++i)
              ++counts[static_cast<std::size_t>(first_element(p, rank, ranks) + i)];
          for (const int count : counts) ASSERT_EQ(count, unit.copies) << p.path;
        }
        EXPECT_EQ(unit.elements, offset);
      }
      for (const Unit& unit : whole_units)
        for (const Parameter& p : unit.parameters)
          EXPECT_EQ(held.at(p.path).size(), static_cast<std::size_t>(element_count(p.shape))) << p.path;
    }
}

/// Forward and backward of a block have two gathers and two reduce-scatters each; the embedding and the head
/// one of either.
TEST(Partition, CollectivesAreThoseOfTheFormula) {
  SmallModel model = model_of(2);
  model.rounds = 3;
  for (const auto& disable : {std::vector<std::string>{}, std::vector<std::string>{"fuse", "residual"}}) {
    model.options.disable = disable;
    const ir::Graph graph = model.step();
    std::map<std::pair<Phase, Op>, std::int64_t> counts, bytes;
    for (const Node& node : graph.nodes()) {
      if (node.lane != Lane::tensor || graph.value(node.outputs[0]).type.shape.back() == 3) continue;
      ++counts[{node.phase, node.op}];
      bytes[{node.phase, node.op}] += ops::wire_bytes(graph, node);
    }
    const std::int64_t blocks = 2 * model.spec.layers, rounds = 3;
    for (const Phase phase : {Phase::forward, Phase::backward})
      for (const Op op : {Op::all_gather, Op::reduce_scatter}) {
        EXPECT_EQ((counts[{phase, op}]), rounds * (blocks + 1)) << name_of(phase) << name_of(op);
        EXPECT_EQ((bytes[{phase, op}]),
                  rounds * (blocks + 1) * model.batch * model.seq * model.spec.dim * 4 / 2);
      }
    EXPECT_EQ((counts[{Phase::update, Op::all_reduce}]), 2) << "of the norms, and of the sum of squares";
  }
}

TEST(Partition, NoRankHasWholeLogitsOrAWholeMatrix) {
  SmallModel model = model_of(2);
  model.spec.ffn = 168;  // half of gate and up together is no whole of anything else
  model.options.disable = {"fuse"};
  const ir::Graph graph = model.step();
  int halves = 0;  // what a rank has of logits and of the feed-forward
  for (const ir::Value& value : graph.values()) {
    if (value.unit.valid()) continue;
    for (const std::int64_t extent : value.type.shape) {
      halves += extent == model.spec.vocab / 2 || extent == model.spec.ffn / 2 ? 1 : 0;
      EXPECT_NE(extent, model.spec.vocab) << value.name;
      EXPECT_NE(extent, model.spec.ffn) << value.name;
    }
  }
  EXPECT_GT(halves, 5);
}

TEST(Partition, PlansAreRightInEveryMode) {
  for (const ShardMode mode : test::all_modes)
    for (const int tensor : {2, 4})
      for (const int kv_heads : {1, 2, 4})
        for (const int team : {1, 2}) {
          SmallModel model = model_of(tensor, kv_heads);
          model.options.shard.mode = mode;
          model.team = team;
          model.tensor_team = team;
          model.rounds = 2;
          const plan::Plan plan = plan::lower(model.step(), test::test_scratch);
          EXPECT_NO_THROW(plan::verify(plan)) << static_cast<int>(mode) << tensor << kv_heads << team;
        }
}

TEST(Partition, EveryWaitIsNeeded) {
  for (const int team : {1, 2}) {
    SmallModel model = model_of(2, 2);
    model.team = model.tensor_team = team;
    model.rounds = 2;
    EXPECT_GT(test::expect_every_wait_is_needed(plan::lower(model.step(), test::test_scratch))[Lane::tensor],
              0);
  }
}

/// Where neighbours share heads of keys and values, a rank has more units than the model.
TEST(Partition, RegatherNeverKeepsAllUnitsOfTheRank) {
  SmallModel model = model_of(4, 2);
  model.spec.heads = 8;
  model.rounds = 2;
  const auto gathered_again = [&] {
    int gathers = 0;
    const ir::Graph graph = model.step();
    for (const Node& node : graph.nodes())
      gathers += passes::is_parameter_gather(node) && node.phase == Phase::backward ? 1 : 0;
    return gathers;
  };
  EXPECT_GT(gathered_again(), 0);
  const std::vector<Unit> units = passes::units_of_rank(model::units(model.spec), {}, model.tensor);
  EXPECT_EQ(units.size(), 3 + 3 * static_cast<std::size_t>(model.spec.layers));
  model.options.shard.keep_units = static_cast<int>(units.size());
  EXPECT_EQ(gathered_again(), 0);
}

/// The gather of what all ranks have serves the whole step.
TEST(Partition, NormsAreGatheredOnceAStep) {
  SmallModel model = model_of(2);
  model.rounds = 3;
  const ir::Graph graph = model.step();
  int gathers = 0;
  for (const Node& node : graph.nodes())
    if (node.op == Op::all_gather && node.lane == Lane::gather) {
      const Unit& unit = graph.unit(graph.value(node.outputs[0]).unit);
      gathers += unit.copies == 2 ? 1 : 0;
      EXPECT_EQ(unit.copies == 2, unit.path == "whole");
    }
  EXPECT_EQ(gathers, 1);
}

TEST(Partition, RecomputeCanGatherRowsAgain) {
  SmallModel model = model_of(2);
  const auto gathers = [&] {
    const ir::Graph graph = model.step();
    return std::count_if(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
      return node.op == Op::all_gather && node.lane == Lane::tensor && node.phase == Phase::backward;
    });
  };
  const auto kept = gathers();
  model.options.recompute.what = Recompute::full;
  // A block gathers the rows that its first products (q, k, v, and gate, up) read once more.
  EXPECT_EQ(gathers(), kept + 2 * model.spec.layers);
}

TEST(Partition, RefusesAnOperationThatItHasNoRuleFor) {
  SmallModel model = model_of(2);
  model.options.partition = false;
  const ir::Graph step = passes::autodiff(model.forward());
  EXPECT_THROW(passes::partition(step), std::logic_error);
}

}  // namespace
}  // namespace weft
