// Tests what hides collectives between activations: put-off weight gradients (hoist), and microbatches that
// take turns (alternate).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "../graph/small_model.hpp"
#include "machine/profile.hpp"
#include "ops/cost.hpp"
#include "plan/simulate.hpp"

namespace weft {
namespace {

using ir::Node;
using ir::Op;
using test::SmallModel;

SmallModel model_that_sends(int tensor, int context) {
  SmallModel model;
  model.spec = {128, 6, 4, 2, 352, 1000, 1e-5, false};
  model.seq = 128;
  model.rounds = 2;
  model.ranks = 1;
  model.tensor = tensor;
  model.context = context;
  model.options.partition = tensor > 1;
  model.options.context = context > 1;
  model.options.precision.params = DType::bf16;
  return model;
}

/// Costs of a machine whose links take `bytes_per_s`.
machine::CostModel costs(double bytes_per_s) {
  machine::Profile p = default_profile(machine::DefaultProfile::host);
  p.compute.launch_s = 0;
  p.sharing = {bytes_per_s, 1, 1, 0};
  p.collectives.clear();
  for (const Op op : {Op::all_gather, Op::reduce_scatter, Op::all_reduce}) {
    machine::CollectiveCurve curve{op, DType::bf16, 2, 1, {}};
    for (double bytes = 1024; bytes < 1e9; bytes *= 2) curve.points.push_back({bytes, bytes / bytes_per_s});
    p.collectives.push_back(std::move(curve));
  }
  return machine::CostModel(std::move(p));
}

/// What each node reads and makes, in the order of the program.
std::multiset<std::string> lines_of(const ir::Graph& graph) {
  std::multiset<std::string> lines;
  for (const Node& node : graph.nodes()) {
    std::string line(name_of(node.op));
    for (const auto* list : {&node.inputs, &node.outputs})
      for (const ir::ValueId value : *list) line += " " + graph.value(value).name;
    lines.insert(line);
  }
  return lines;
}

TEST(Hoist, MovesNodesAndChangesNone) {
  for (const auto& [tensor, context] : {std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)})
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      SmallModel model = model_that_sends(tensor, context);
      model.options.recompute.what = recompute;
      model.options.disable = {"order"};
      model.options.hoist.depth = 0;
      const auto before = lines_of(model.step());
      for (const int depth : {1, 2, 4, 1000}) {
        model.options.hoist = {depth, 1 + depth / 4};
        const ir::Graph graph = model.step();
        EXPECT_EQ(lines_of(graph), before);
        EXPECT_NO_THROW(plan::verify(plan::lower(graph, test::test_scratch)));
      }
    }
}

/// With two weight gradients that wait, there is one for every collective of a backward but the first.
TEST(Hoist, APutOffWeightGradientStandsBehindEachCollectiveOfTheBackward) {
  SmallModel model = model_that_sends(2, 1);
  model.options.hoist = {2, 1};
  const ir::Graph graph = model.step();
  int collectives = 0, hidden = 0;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.lane != Lane::tensor || node.phase != ir::Phase::backward) continue;
    ++collectives;
    for (std::size_t next = i + 1; next < graph.nodes().size(); ++next) {
      const Node& reader = graph.nodes()[next];
      const bool reads =
          std::find(reader.inputs.begin(), reader.inputs.end(), node.outputs[0]) != reader.inputs.end();
      if (reads) break;
      if (reader.op != Op::matmul_wgrad) continue;
      ++hidden;
      break;
    }
  }
  EXPECT_EQ(collectives, model.rounds * (4 * model.spec.layers + 2));
  EXPECT_GE(hidden, collectives - 2 * model.rounds);
}

/// Two rounds take turns at every collective between activations: between it and what reads it, the other
/// computes.
TEST(Alternate, TheOtherRoundStandsBehindEachCollective) {
  SmallModel model = model_that_sends(2, 1);
  model.rounds = 5;  // the last is alone
  model.options.hoist.depth = 0;
  model.options.turns = passes::Turns::half;
  const ir::Graph graph = model.step();
  int collectives = 0, hidden = 0;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.lane != Lane::tensor || node.phase == ir::Phase::update || node.round == 4) continue;
    ++collectives;
    for (std::size_t next = i + 1; next < graph.nodes().size(); ++next) {
      const Node& reader = graph.nodes()[next];
      if (std::find(reader.inputs.begin(), reader.inputs.end(), node.outputs[0]) != reader.inputs.end())
        break;
      const bool computes = ops::cost(graph, reader).flops > 0;
      if (!computes || reader.round != (node.round ^ 1)) continue;
      ++hidden;
      break;
    }
  }
  EXPECT_EQ(collectives, 4 * (8 * model.spec.layers + 5));
  EXPECT_GE(hidden, collectives * 9 / 10);
}

TEST(Alternate, MovesNodesAndSharesGathers) {
  for (const auto& [tensor, context] : {std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)})
    for (const ShardMode mode : test::all_modes)
      for (const int rounds : {1, 2, 3, 4}) {
        SmallModel model = model_that_sends(tensor, context);
        model.ranks = 2;
        model.rounds = rounds;
        model.options.shard.mode = mode;
        model.options.disable = {"order"};
        const auto gathers = [](const ir::Graph& graph) {
          return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                               [](const Node& node) { return node.lane == Lane::gather; });
        };
        const ir::Graph one_by_one = model.step();
        model.options.turns = passes::Turns::half;
        const ir::Graph in_turns = model.step();
        EXPECT_NO_THROW(plan::verify(plan::lower(in_turns, test::test_scratch)));
        EXPECT_LE(gathers(in_turns), gathers(one_by_one));
        if (mode == ShardMode::fsdp && rounds == 4) {
          // But for the table, every unit is gathered half as often, and what all have once a step.
          EXPECT_LE(gathers(in_turns), gathers(one_by_one) / 2 + 3);
        }
      }
}

/// Buckets of reductions are those of each round.
TEST(Alternate, BucketsHoldWhatTheyHeld) {
  SmallModel model = model_that_sends(2, 1);
  model.ranks = 2;
  model.rounds = 4;
  const std::vector<Unit> units = passes::partitioned(model::units(model.spec), 2);
  const std::vector<int> blocks = passes::buckets_by_path(units, {"embed", "layers.*", "head"});
  model.options.buckets = passes::Buckets{blocks, blocks, blocks};
  const auto members = [&] {
    const ir::Graph graph = model.step();
    EXPECT_NO_THROW(plan::verify(plan::lower(graph, test::test_scratch)));
    std::multiset<std::size_t> sizes;
    for (const Node& node : graph.nodes())
      if (node.op == Op::reduce_scatter && node.lane == Lane::reduce) sizes.insert(node.outputs.size());
    return sizes;
  };
  const auto one_by_one = members();
  model.options.turns = passes::Turns::half;
  EXPECT_EQ(members(), one_by_one);
}

/// Where the wire takes half of the compute's time, weight gradients hide a quarter of it, and microbatches
/// that take turns nine tenths. The shape is that of a layer of a model of some billions of parameters.
TEST(Hiding, ExposesLessOfTheWire) {
  for (const auto& [tensor, context] : {std::pair(2, 1), std::pair(1, 2)}) {
    SmallModel model = model_that_sends(tensor, context);
    model.spec = {2048, 4, 16, 8, 5632, 32000, 1e-5, false};
    model.seq = 2048;
    model.rounds = 4;
    const auto exposed = [&](const passes::HoistOptions& hoist, passes::Turns turns, double bytes_per_s,
                             double* wire_to_compute) {
      model.options.hoist = hoist;
      model.options.turns = turns;
      const plan::Plan plan = plan::lower(model.step(), test::test_scratch);
      const machine::LaneTimes times = plan::simulate(plan, costs(bytes_per_s));
      const Lane lane = tensor > 1 ? Lane::tensor : Lane::context;
      if (wire_to_compute != nullptr) *wire_to_compute = times.busy[lane] / times.busy[Lane::compute];
      return times.exposed[lane];
    };
    double ratio = 0;
    exposed({0, 1}, passes::Turns::none, 1e9, &ratio);
    double half = 1e9 * ratio / 0.5;
    exposed({0, 1}, passes::Turns::none, half, &ratio);  // what shares the link is under way at other times
    half *= ratio / 0.5;
    const double neither = exposed({0, 1}, passes::Turns::none, half, &ratio);
    ASSERT_NEAR(ratio, 0.5, 0.02);
    EXPECT_LE(exposed({4, 2}, passes::Turns::none, half, nullptr), 0.8 * neither) << tensor << context;
    EXPECT_LE(exposed({0, 1}, tensor > 1 ? passes::Turns::half : passes::Turns::whole, half, nullptr),
              0.15 * neither)
        << tensor << context;
  }
}

}  // namespace
}  // namespace weft
