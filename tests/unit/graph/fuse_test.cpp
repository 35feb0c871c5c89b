#include <gtest/gtest.h>

#include <algorithm>

#include "ir/verify.hpp"
#include "ops/builder.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Op;
using test::SmallModel;

std::int64_t count(const ir::Graph& graph, Op op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [&](const ir::Node& node) { return node.op == op; });
}

TEST(Fuse, MakesOneMatmulOfThoseThatReadOneOperand) {
  SmallModel m;
  m.rounds = 2;
  const std::int64_t layers = m.spec.layers * m.rounds, heads = m.rounds;
  const ir::Graph before = m.forward(), after = passes::fuse(before);
  ir::verify(after);
  EXPECT_EQ(count(before, Op::matmul), 5 * layers + heads);
  EXPECT_EQ(count(after, Op::matmul), 2 * layers + heads);
  EXPECT_EQ(count(after, Op::rope), 0);
  EXPECT_EQ(count(after, Op::rope_split), layers);
  const auto shape = [&](const char* name) { return after.value(after.find_value(name)).type.shape; };
  EXPECT_EQ(shape("layers.1.attn.wq_wk_wv#1"), (Shape{64 + 32 + 32, 64}));
  EXPECT_EQ(shape("layers.1.ffn.w1_w3#1"), (Shape{2 * 176, 64}));
  EXPECT_EQ(shape("layers.1.ffn.gate_up#1").back(), 2 * 176);
  // Values that other modules and the backward read keep their names.
  for (const char* name :
       {"layers.0.attn.q_rope", "layers.0.attn.k_rope", "layers.0.attn.v", "layers.0.ffn.act"}) {
    EXPECT_EQ(shape(name), before.value(before.find_value(name)).type.shape);
    EXPECT_TRUE(after.value(after.find_value(name)).producer.valid());
  }
}

TEST(Fuse, LeavesGradientsOfEveryParameterInTheirPlace) {
  SmallModel m;
  const ir::Graph graph = m.step();
  const plan::Plan plan = plan::lower(graph, test::test_scratch);
  const auto offset = [&](const std::string& name) {
    return plan.locations[plan.graph.find_value(name).index()].offset;
  };
  for (const Unit& unit : graph.units()) {
    if (!unit.path.starts_with("layers.")) continue;
    const std::string fused = unit.path + (unit.path.ends_with("attn") ? ".wq_wk_wv.grad" : ".w1_w3.grad");
    EXPECT_EQ(offset(fused) - offset(unit.path + ".grad"), 4 * unit.parameters[1].offset) << fused;
    const Parameter& last = unit.parameters.back();
    EXPECT_EQ(offset(last.path + ".grad") - offset(unit.path + ".grad"), 4 * last.offset) << last.path;
  }
  EXPECT_EQ(count(graph, Op::rope_join), m.spec.layers);
  EXPECT_EQ(count(graph, Op::matmul_wgrad), 4 * m.spec.layers);
}

/// gate and up as a model would write them; `second` says where up's weight stands among w1, w3 and w2 of the
/// unit.
ir::Graph feed_forward(std::size_t second, bool read_twice) {
  const Unit unit{"net", {{"net.w1", {8, 4}, 0}, {"net.w3", {8, 4}, 32}, {"net.w2", {8, 4}, 64}}, 96};
  ir::Graph graph("net", Mesh({{"data", 1}}), {unit});
  graph.add_storage({"master.net", ir::Role::master, {DType::f32, {96}}, ir::UnitId(0), {}});
  graph.add_storage({"x", ir::Role::input, {DType::f32, {1, 3, 4}}, {}, {}});
  ops::Builder b(graph);
  const ir::ValueId whole = b.state(graph.find_storage("master.net")), x = b.state(graph.find_storage("x"));
  const ir::ValueId w1 = b.view(whole, 0, "net.w1"), other = b.view(whole, second, "net.other");
  const ir::ValueId gate = b.emit_one(Op::matmul, "net", {x, w1}, "net.gate");
  const ir::ValueId up = b.emit_one(Op::matmul, "net", {x, other}, "net.up");
  const ir::ValueId act = b.emit_one(Op::swiglu, "net", {gate, up}, "net.act");
  if (read_twice) b.emit_one(Op::add, "net", {act, gate}, "net.out");
  return graph;
}

TEST(Fuse, NeedsNeighboursThatNobodyElseReads) {
  EXPECT_EQ(count(passes::fuse(feed_forward(1, false)), Op::matmul), 1);
  EXPECT_EQ(count(passes::fuse(feed_forward(2, false)), Op::matmul), 2);  // w3 stands between the two
  EXPECT_EQ(count(passes::fuse(feed_forward(1, true)), Op::matmul), 2);
}

TEST(Residual, JoinsAnAddAndTheNormBehindIt) {
  SmallModel m;
  const ir::Graph graph = m.step();
  // A layer has two residuals, each before another norm. The first norm reads the embedding.
  EXPECT_EQ(count(graph, Op::add_rms_norm), 2 * m.spec.layers);
  EXPECT_EQ(count(graph, Op::rms_norm), 1);
  m.options.disable = {"residual"};
  EXPECT_EQ(count(m.step(), Op::add_rms_norm), 0);
  m.options.disable = {};
  m.options.recompute.what = Recompute::full;
  EXPECT_EQ(count(m.step(), Op::add_rms_norm), 2 * m.spec.layers);
  // Backward makes them again from the kept sums.
  EXPECT_EQ(count(m.step(), Op::rms_norm), 1 + 2 * m.spec.layers);
}

}  // namespace
}  // namespace weft
