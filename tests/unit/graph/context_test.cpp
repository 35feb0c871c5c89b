// Tests a context axis as graphs and plans: what is sent, by whom it is read, and in which order.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "needed_waits.hpp"
#include "ops/cost.hpp"
#include "plan/plan.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Node;
using ir::Op;
using ir::Phase;
using test::SmallModel;

SmallModel model_with_context(int context, int ranks = 1) {
  SmallModel model;
  model.ranks = ranks;
  model.context = context;
  model.options.context = true;
  return model;
}

/// The small model has two heads of keys and values, of 16 numbers each.
constexpr std::int64_t keys_width = 32;

/// Keys and values of each layer are gathered forward, and their gradients are added up backward.
TEST(Context, CollectivesAreThoseOfTheFormula) {
  for (const int ranks : {2, 4}) {
    SmallModel model = model_with_context(ranks);
    model.rounds = 3;
    for (const auto& disable : {std::vector<std::string>{}, std::vector<std::string>{"fuse", "residual"}}) {
      model.options.disable = disable;
      const ir::Graph graph = model.step();
      std::map<std::pair<Phase, Op>, std::int64_t> counts, bytes;
      for (const Node& node : graph.nodes()) {
        if (node.lane != Lane::context) continue;
        ++counts[{node.phase, node.op}];
        bytes[{node.phase, node.op}] += ops::wire_bytes(graph, node);
      }
      const std::int64_t calls = model.rounds * 2 * model.spec.layers;
      const std::int64_t tokens = model.batch * model.seq;
      for (const auto& [phase, op] :
           {std::pair(Phase::forward, Op::all_gather), std::pair(Phase::backward, Op::reduce_scatter)}) {
        EXPECT_EQ((counts[{phase, op}]), calls);
        EXPECT_EQ((bytes[{phase, op}]), calls * tokens * keys_width * 4 / ranks * (ranks - 1));
      }
      EXPECT_EQ(counts.size(), 2U);
    }
  }
}

/// What all ranks have as gradients is a term of a sum over all of them, and state is cut over them: the axis
/// needs no collective of its own for parameters.
TEST(Context, StateIsCutOverDataAndContextTogether) {
  SmallModel wide = model_with_context(1, 4);
  wide.options.context = false;
  const ir::Graph data = wide.step(), both = model_with_context(2, 2).step();
  std::map<std::string, std::int64_t> of_data, of_both;
  for (const auto& [graph, bytes] : {std::pair(&data, &of_data), std::pair(&both, &of_both)})
    for (const ir::Storage& storage : graph->storages())
      if (storage.unit.valid()) (*bytes)[storage.name] = graph->local_bytes(storage);
  EXPECT_EQ(of_both, of_data);
  const auto collectives = [](const ir::Graph& graph) {
    return std::count_if(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
      return ir::is_collective(node.op) && node.lane != Lane::context;
    });
  };
  EXPECT_EQ(collectives(both), collectives(data));
}

/// No rank has more than its sections of anything but keys and values.
TEST(Context, OnlyAttentionReadsWholeSequences) {
  SmallModel model = model_with_context(2);
  model.seq = 40;  // no other extent is as large
  const ir::Graph graph = model.step();
  for (const Node& node : graph.nodes())
    for (const ir::ValueId input : node.inputs) {
      const ir::Value& value = graph.value(input);
      if (value.unit.valid() || value.type.shape.size() != 3 || value.type.shape[1] != model.seq) continue;
      EXPECT_TRUE(node.op == Op::attention || node.op == Op::attention_grad || node.op == Op::split_sections)
          << value.name;
    }
}

TEST(Context, EveryWaitIsNeeded) {
  for (const int team : {1, 2}) {
    SmallModel model = model_with_context(2);
    model.team = model.context_team = team;
    model.rounds = 2;
    EXPECT_GT(test::expect_every_wait_is_needed(plan::lower(model.step(), test::test_scratch))[Lane::context],
              0);
  }
}

TEST(Context, PlansAreRightInEveryMode) {
  for (const ShardMode mode : test::all_modes)
    for (const int context : {2, 3})
      for (const int tensor : {1, 2})
        for (const int team : {1, context}) {
          SmallModel model = model_with_context(context);
          model.seq = 48;
          model.tensor = tensor;
          model.options.partition = tensor > 1;
          model.options.shard.mode = mode;
          model.team = model.context_team = team;
          model.rounds = 2;
          const plan::Plan plan = plan::lower(model.step(), test::test_scratch);
          EXPECT_NO_THROW(plan::verify(plan)) << static_cast<int>(mode) << context << tensor << team;
          int exchanges = 0;
          for (const Node& node : plan.graph.nodes())
            if (node.lane == Lane::context) {
              EXPECT_EQ(ops::team_of(node), team);
              ++exchanges;
            }
          EXPECT_GE(exchanges, 2 * model.rounds * model.spec.layers);
        }
}

TEST(Context, RecomputeCanGatherKeysAndValuesAgain) {
  SmallModel model = model_with_context(2);
  const auto gathers = [&] {
    const ir::Graph graph = model.step();
    return std::count_if(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
      return node.op == Op::all_gather && node.lane == Lane::context && node.phase == Phase::backward;
    });
  };
  EXPECT_EQ(gathers(), 0);
  model.options.recompute.what = Recompute::full;
  EXPECT_EQ(gathers(), 2 * model.spec.layers);
}

}  // namespace
}  // namespace weft
