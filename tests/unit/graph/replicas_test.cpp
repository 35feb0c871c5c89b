// Tests meshes with a replica axis: what is placed how, which collectives a step has, and what may run when.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "needed_waits.hpp"
#include "plan/report.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Op;
using ir::Placement;
using test::SmallModel;

constexpr std::tuple<int, int> shapes[] = {{2, 1}, {1, 3}, {2, 2}, {2, 3}, {3, 2}, {4, 1}};

SmallModel model_of(ShardMode mode, std::tuple<int, int> shape, int rounds) {
  SmallModel m;
  m.options.shard.mode = mode;
  std::tie(m.replicas, m.ranks) = shape;
  m.rounds = rounds;
  return m;
}

TEST(Replicas, EveryModeVerifiesOnEveryMesh) {
  for (const ShardMode mode : test::all_modes)
    for (const auto& shape : shapes)
      for (const int rounds : {1, 2})
        for (const bool buckets : {false, true}) {
          SmallModel m = model_of(mode, shape, rounds);
          m.spec.tie_embeddings = buckets;
          const auto by_block = passes::buckets_by_path(model::units(m.spec), {"embed", "layers.*", "head"});
          if (buckets) m.options.buckets = {by_block, by_block, by_block};
          std::size_t verified = 0;
          const ir::Graph graph = m.step([&](const passes::Pass& pass, const ir::Graph&, const ir::Graph& g) {
            EXPECT_NO_THROW(ir::verify(g)) << pass.name;
            ++verified;
          });
          EXPECT_EQ(verified, passes::training_passes(m.options).size());
          EXPECT_EQ(ir::print(ir::parse(ir::print(graph))), ir::print(graph));
          EXPECT_NO_THROW(plan::verify(plan::lower(graph, test::test_scratch)));
        }
}

/// Losses are added up in the order of batch ranks, which is that of microbatches, whichever axis comes
/// first.
TEST(Replicas, LossesStandInTheOrderOfBatchRanks) {
  for (const bool replicas_first : {true, false}) {
    SmallModel m;
    std::vector<MeshAxis> axes{{"replica", 2}, {"data", 2}};
    if (!replicas_first) std::swap(axes[0], axes[1]);
    const ir::Graph forward = model::build_loss(m.spec, {m.batch * 4, m.seq, 1}, Mesh(axes), "train").graph;
    std::vector<std::string> gathered;
    const ir::Graph step = passes::run(passes::training_passes(m.options), forward);
    for (const ir::Node& node : step.nodes())
      if (const std::string& name = step.value(node.outputs[0]).name;
          node.op == Op::all_gather && name.starts_with("loss."))
        gathered.push_back(name);
    EXPECT_EQ(gathered, (std::vector<std::string>{"loss.ranks", "loss.replicas"})) << replicas_first;
  }
}

/// Compares collectives and bytes with their closed forms: R replicas, S shards, and P(u) for a unit's padded
/// size.
TEST(Replicas, CollectivesEqualTheirClosedForms) {
  for (const ShardMode mode : test::all_modes)
    for (const auto& shape : shapes)
      for (const int rounds : {1, 3}) {
        const SmallModel m = model_of(mode, shape, rounds);
        const auto [replicas, ranks] = shape;
        if (replicas == 1) continue;
        SCOPED_TRACE(::testing::Message() << "mode " << static_cast<int>(mode) << ", " << replicas << " x "
                                          << ranks << ", " << rounds << " rounds");
        std::int64_t padded = 0, again = 0;
        const auto units = model::units(m.spec);
        for (const Unit& u : units) {
          padded += u.padded_elements(replicas * ranks);
          if (u.path != "embed" && u.path != "head") again += u.padded_elements(replicas * ranks);
        }
        const auto n = static_cast<std::int64_t>(units.size());
        const bool fsdp = mode == ShardMode::fsdp;
        std::map<std::string, std::pair<std::int64_t, std::int64_t>> expected;  // count, and payload bytes
        // Shards are summed, once, whatever the rounds; whole units never are.
        expected["backward all_reduce f32 replica"] = {n, 4 * padded / ranks};
        expected["update all_gather f64 replica"] = {1, 16 * replicas * ranks * rounds};
        if (ranks > 1) {
          if (fsdp) expected["forward all_gather f32 data"] = {n * rounds, 4 * padded * rounds};
          if (fsdp) expected["backward all_gather f32 data"] = {(n - 2) * rounds, 4 * again * rounds};
          if (!fsdp) expected["update all_gather f32 data"] = {n, 4 * padded};
          expected["backward reduce_scatter f32 data"] = {n * rounds, 4 * padded * rounds};
          expected["update all_gather f64 data"] = {1, 16 * ranks * rounds};
          expected["update all_reduce i64 data"] = {1, 8 * 68};
        }
        const auto totals = plan::collective_totals(plan::lower(m.step(), test::test_scratch));
        for (const auto& [name, total] : totals) {
          ASSERT_TRUE(expected.contains(name)) << name;
          EXPECT_EQ(total.count, expected[name].first) << name;
          EXPECT_EQ(total.payload_bytes, expected[name].second) << name;
        }
        EXPECT_EQ(totals.size(), expected.size());
        const auto& sums = totals.at("backward all_reduce f32 replica");
        EXPECT_NEAR(static_cast<double>(sums.wire_bytes),
                    2.0 * static_cast<double>(sums.payload_bytes) * (replicas - 1) / replicas, 2.0 * n);
      }
}

TEST(Replicas, AreNotThereWhenThereIsOne) {
  for (const ShardMode mode : test::all_modes) {
    SmallModel m = model_of(mode, {1, 3}, 2);
    const ir::Graph without = m.step();
    const ir::Graph one = passes::run(
        passes::training_passes(m.options),
        model::build_loss(m.spec, {m.batch * 3, m.seq, 2}, Mesh({{"replica", 1}, {"data", 3}}), "train")
            .graph);
    ASSERT_EQ(one.nodes().size(), without.nodes().size());
    for (std::size_t i = 0; i < one.nodes().size(); ++i) {
      const ir::Node &a = one.nodes()[i], &b = without.nodes()[i];
      EXPECT_EQ(a.op, b.op);
      EXPECT_EQ(a.lane, b.lane);
      EXPECT_EQ(one.local_bytes(a.outputs[0]), without.local_bytes(b.outputs[0]));
    }
  }
}

/// The batch is cut over both axes, and state over one of them. What the update reads is complete.
TEST(Replicas, PlaceBatchAndState) {
  for (const ShardMode mode : test::all_modes) {
    const ir::Graph graph = model_of(mode, {3, 2}, 2).step();
    int state = 0, inputs = 0, updates = 0;
    for (const ir::Storage& s : graph.storages()) {
      if (s.unit.valid()) {
        ++state;
        EXPECT_EQ(s.placement[0], ir::replicate) << s.name;
      } else if (s.role == ir::Role::input && s.type.shape.size() == 2) {
        ++inputs;
        EXPECT_EQ(s.placement, (ir::Placements{ir::shard(0), ir::shard(0)})) << s.name;
      }
    }
    for (const ir::Node& node : graph.nodes()) {
      if (node.op != Op::sum_squares && node.op != Op::adamw) continue;
      ++updates;
      const ir::Value& gradient = graph.value(node.inputs[0]);
      EXPECT_EQ(gradient.placement[0], ir::replicate) << gradient.name;
      EXPECT_NE(gradient.placement[1].kind, Placement::Kind::partial) << gradient.name;
    }
    EXPECT_GE(state, 3 * 6) << "masters and two moments of six units";
    EXPECT_GE(inputs, 2 * 2) << "tokens and targets of two rounds";
    EXPECT_EQ(updates, 2 * 6);
  }
}

/// The sums have a lane of their own. Each stands right behind the reduce-scatter that it needs, under what
/// is left of backward.
TEST(Replicas, AreAddedUpAsSoonAsAUnitsSumIsComplete) {
  for (const ShardMode mode : {ShardMode::ddp, ShardMode::zero2, ShardMode::fsdp}) {
    const ir::Graph graph = model_of(mode, {2, 2}, 2).step();
    const auto& nodes = graph.nodes();
    std::size_t sums = 0;
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      if (nodes[i].op != Op::all_reduce || nodes[i].lane != Lane::replica) continue;
      ++sums;
      EXPECT_EQ(nodes[i].round, 1);
      EXPECT_EQ(nodes[i - 1].op, Op::reduce_scatter);
      EXPECT_EQ(nodes[i - 1].outputs, nodes[i].inputs);
    }
    EXPECT_EQ(sums, graph.units().size());
  }
}

TEST(Replicas, ShareBucketsWithTheReductionsBeforeThem) {
  SmallModel m = model_of(ShardMode::fsdp, {2, 2}, 2);
  const auto single = plan::collective_totals(plan::lower(m.step(), test::test_scratch));
  const auto by_block = passes::buckets_by_path(model::units(m.spec), {"embed", "layers.*", "head"});
  m.options.buckets = {by_block, by_block, by_block};
  const auto grouped = plan::collective_totals(plan::lower(m.step(), test::test_scratch));
  const std::string sums = "backward all_reduce f32 replica";
  EXPECT_EQ(single.at(sums).count, 2 * m.spec.layers + 2);
  EXPECT_EQ(grouped.at(sums).count, m.spec.layers + 2);
  EXPECT_EQ(grouped.at(sums).payload_bytes, single.at(sums).payload_bytes);
  EXPECT_EQ(grouped.at(sums).wire_bytes, single.at(sums).wire_bytes);
}

TEST(Replicas, EveryWaitIsNeeded) {
  const SmallModel m = model_of(ShardMode::fsdp, {2, 2}, 2);
  EXPECT_GT(test::expect_every_wait_is_needed(plan::lower(m.step(), test::test_scratch))[Lane::replica], 0);
}

}  // namespace
}  // namespace weft
