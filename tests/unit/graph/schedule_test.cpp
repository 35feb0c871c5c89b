// Tests the passes that trade time for memory and messages for size: recompute, bucket, order.
#include <gtest/gtest.h>

#include <set>

#include "base/check.hpp"
#include "plan/report.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Op;
using ir::Phase;
using test::SmallModel;

int count(const ir::Graph& graph, Op op, Phase phase) {
  int n = 0;
  for (const ir::Node& node : graph.nodes()) n += node.op == op && node.phase == phase ? 1 : 0;
  return n;
}

plan::Plan lowered(const SmallModel& m) {
  plan::Plan plan = plan::lower(m.step(), test::test_scratch);
  EXPECT_NO_THROW(plan::verify(plan));
  return plan;
}

TEST(Recompute, FullKeepsWhatGoesFromModuleToModule) {
  SmallModel m;
  m.options.recompute.what = Recompute::full;
  const ir::Graph graph = m.step();
  // Of a block these are made again: norm, qkv, its rotation, attention; norm, gate and up, activation. Not
  // made again are proj, down and the residuals. A matmul is also what makes the gradient of what proj and
  // down read.
  EXPECT_EQ(count(graph, Op::rms_norm, Phase::backward), 2 * m.spec.layers);
  EXPECT_EQ(count(graph, Op::attention, Phase::backward), m.spec.layers);
  EXPECT_EQ(count(graph, Op::swiglu, Phase::backward), m.spec.layers);
  EXPECT_EQ(count(graph, Op::matmul, Phase::backward), (2 + 2) * m.spec.layers);
  EXPECT_EQ(count(graph, Op::add, Phase::backward), 0);
  std::set<std::string> kept;  // forward values that backward reads
  for (const ir::Node& node : graph.nodes())
    if (node.phase == Phase::backward)
      for (ir::ValueId input : node.inputs) {
        const ir::Node& producer = graph.node(graph.value(input).producer);
        if (producer.phase == Phase::forward && !ir::is_alias(producer.op) && !ir::is_collective(producer.op))
          kept.insert(graph.value(input).name);
      }
  EXPECT_EQ(kept, (std::set<std::string>{"embed.out", "layers.0.attn.out", "layers.0.ffn.out",
                                         "layers.1.attn.out", "layers.1.ffn.out", "head.h", "head.rstd"}));
}

TEST(Recompute, SelectiveGoesByOperationAndModule) {
  SmallModel m;
  m.options.recompute.what = Recompute::selective;
  m.options.recompute.rules = {passes::recompute_rule("swiglu"),
                               passes::recompute_rule("rms_norm@layers.1.*")};
  const ir::Graph graph = m.step();
  EXPECT_EQ(count(graph, Op::swiglu, Phase::backward), 2);
  EXPECT_EQ(count(graph, Op::rms_norm, Phase::backward), 2);
  EXPECT_EQ(count(graph, Op::matmul, Phase::backward), 2 * m.spec.layers);  // none is made again
  m.options.recompute.rules = {passes::recompute_rule("@layers.0.ffn")};
  EXPECT_EQ(count(m.step(), Op::swiglu, Phase::backward), 1);
  EXPECT_THROW(passes::recompute_rule("swigloo"), Error);
}

TEST(Recompute, TakesLessMemoryTheMoreIsRecomputed) {
  SmallModel m;
  m.spec.layers = 6;
  m.seq = 256;
  const std::int64_t none = lowered(m).live_bytes;
  m.options.recompute.what = Recompute::selective;
  m.options.recompute.rules = {passes::recompute_rule("swiglu"), passes::recompute_rule("rms_norm")};
  const std::int64_t some = lowered(m).live_bytes;
  m.options.recompute.what = Recompute::full;
  const std::int64_t full = lowered(m).live_bytes;
  EXPECT_LT(some, none - none / 8);
  EXPECT_LT(full, some - none / 8);
}

TEST(Buckets, ComeFromModulePaths) {
  // The units are embed, layers.0.attn, layers.0.ffn, layers.1.attn, ...
  const auto units = model::units(SmallModel{}.spec);
  using List = std::vector<int>;
  EXPECT_EQ(passes::buckets_by_path(units, {}), (List{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(passes::buckets_by_path(units, {"embed", "layers.*", "head"}), (List{0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(passes::buckets_by_path(units, {"layers.0-1"}), (List{0, 1, 1, 1, 1, 2}));
  EXPECT_EQ(passes::buckets_by_path(units, {"layers.*.ffn", "layers.1"}), (List{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(passes::buckets_by_path(units, {"layers.0.attn", "layers.0-9"}), (List{0, 1, 2, 2, 2, 3}));
}

TEST(Buckets, MakeFewerCollectivesOfTheSameBytes) {
  for (const auto mode : test::all_modes) {
    SmallModel m;
    m.rounds = 2;
    m.ranks = 3;
    m.options.shard.mode = mode;
    const auto single = plan::collective_totals(lowered(m));
    const auto by_block = passes::buckets_by_path(model::units(m.spec), {"embed", "layers.*", "head"});
    m.options.buckets = {by_block, by_block, by_block};
    const auto grouped = plan::collective_totals(lowered(m));
    EXPECT_EQ(grouped.size(), single.size());
    for (const auto& [name, total] : single) {
      EXPECT_EQ(grouped.at(name).payload_bytes, total.payload_bytes) << name;
      EXPECT_EQ(grouped.at(name).wire_bytes, total.wire_bytes) << name;
    }
    EXPECT_EQ(grouped.at("backward reduce_scatter f32").count, 2 * (m.spec.layers + 2));
  }
}

TEST(Order, PrefetchIsBoundedByBytes) {
  SmallModel m;
  m.options.order.prefetch = 100;
  const std::int64_t free = lowered(m).live_bytes;
  m.options.order.prefetch_bytes = 1;  // this is less than any gather, so nothing is gathered ahead
  const std::int64_t bounded = lowered(m).live_bytes;
  m.options.order = {0, 0, 1};
  EXPECT_EQ(bounded, lowered(m).live_bytes);
  EXPECT_LT(bounded, free);
}

TEST(Order, ReductionsHoldWhatTheyReadForAsLongAsAsked) {
  SmallModel m;
  m.spec.layers = 6;
  const auto live = [&m](int delay) {
    m.options.order.delay = delay;
    return lowered(m).live_bytes;
  };
  EXPECT_LE(live(0), live(1));
  EXPECT_LT(live(1), live(4));
}

TEST(Accumulation, OnceReducesOnceWhateverTheRounds) {
  SmallModel m;
  m.rounds = 3;
  m.options.shard.accumulation = Accumulation::once;
  const auto totals = plan::collective_totals(lowered(m));
  EXPECT_EQ(totals.at("backward reduce_scatter f32").count, 2 * m.spec.layers + 2);
}

}  // namespace
}  // namespace weft
