// Tests the estimates of kernels: signatures, measured times, estimates between them, and sums over a plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "machine/cost_model.hpp"
#include "machine/predict.hpp"
#include "machine/signature.hpp"
#include "unit/graph/small_model.hpp"
#include "unit/machine/small_profile.hpp"

namespace weft::test {
namespace {

using ir::Op;
using machine::CostModel;
using machine::KernelSample;
using machine::Profile;
using machine::signature;

bool is_kernel(const ir::Node& node) {
  return !ir::is_alias(node.op) && !ir::is_collective(node.op);
}

const ir::Node& first(const ir::Graph& graph, Op op) {
  return *std::find_if(graph.nodes().begin(), graph.nodes().end(),
                       [op](const ir::Node& n) { return n.op == op; });
}

/// The profile of a machine on which every kernel takes `factor` times what the small profile's rates say.
Profile measured(const ir::Graph& graph, double factor) {
  Profile p = small_profile();
  p.kernels.clear();
  const CostModel rates(p);
  std::map<std::string, KernelSample> samples;
  for (const ir::Node& node : graph.nodes()) {
    if (!is_kernel(node)) continue;
    const ops::Cost cost = ops::cost(graph, node);
    const std::string name = signature(graph, node);
    samples[name] = {name, factor * rates.kernel_seconds(graph, node), cost.flops, cost.bytes};
  }
  for (const auto& [name, sample] : samples) p.kernels.push_back(sample);
  return p;
}

/// A GPU's attention in fp32 or within documents has no tensor cores.
TEST(KernelSeconds, OfAttentionOnAGpuAreThoseOfItsKernels) {
  const Profile profile = machine::shipped_machine("h100").value();
  const CostModel costs(profile);
  const auto flops_per_s = [&](DType type, bool documents, int context, std::int64_t seq = 4096) {
    SmallModel model;
    model.options.precision.params = type;
    model.spec.document_mask = documents;
    model.context = context;
    model.options.context = context > 1;
    model.seq = seq;
    const ir::Graph g = model.step();
    const ir::Node& attention = first(g, Op::attention);
    return ops::cost(g, attention).flops / costs.kernel_seconds(g, attention);
  };
  const double fused = flops_per_s(DType::bf16, false, 1);
  EXPECT_GT(fused, profile.compute.peak_f32);
  EXPECT_LE(flops_per_s(DType::f32, false, 1), profile.compute.peak_f32);
  EXPECT_LE(flops_per_s(DType::bf16, true, 1), profile.compute.peak_f32);
  EXPECT_LE(flops_per_s(DType::bf16, true, 2), profile.compute.peak_f32);
  EXPECT_GT(flops_per_s(DType::bf16, false, 2), profile.compute.peak_f32) << "of a part of each sequence";
  EXPECT_LE(flops_per_s(DType::bf16, false, 2, 4 * 1000), profile.compute.peak_f32)
      << "1000 is no multiple of 64";
}

/// A machine whose smallest kernel takes no time, and that has measured one without any work.
TEST(KernelSeconds, AreFiniteWhereRatesSayNothing) {
  SmallModel model;
  const ir::Graph g = model.step();
  Profile p = small_profile();
  p.compute.launch_s = 0;
  p.kernels.clear();
  for (const ir::Node& node : g.nodes())
    if (is_kernel(node)) p.kernels.push_back({machine::family(signature(g, node)) + " [1]", 1e-6, 0, 0});
  const CostModel costs(p);
  for (const ir::Node& node : g.nodes()) {
    if (is_kernel(node)) {
      EXPECT_TRUE(std::isfinite(costs.kernel_seconds(g, node)));
    }
  }
}

TEST(KernelSignature, SaysWhatTheTimeDependsOn) {
  SmallModel model;
  model.options.precision.params = DType::bf16;
  const ir::Graph g = model.step();
  EXPECT_EQ(signature(g, first(g, Op::matmul)), "matmul bf16[2,16,64] bf16[128,64] -> bf16[2,16,128]");
  EXPECT_EQ(
      signature(g, first(g, Op::attention)),
      "attention bf16[2,16,64] bf16[2,16,32] bf16[2,16,32] heads=4 kv_heads=2 -> bf16[2,16,64] f32[2,4,16]");
  EXPECT_EQ(machine::family(signature(g, first(g, Op::attention))), "attention bf16 bf16 bf16 -> bf16 f32");
  // This is a rank's half of a unit: 64 * 300 elements on two ranks, padded.
  EXPECT_NE(signature(g, first(g, Op::adamw)).find(" f32[9728] "), std::string::npos)
      << signature(g, first(g, Op::adamw));
}

/// Sums in any order, and another number of rows at a time, are other kernels of the same shapes.
TEST(KernelSignature, SaysHowAKernelGoesAboutIt) {
  SmallModel model;
  const ir::Graph ordered = model.step();
  model.spec.deterministic = false;
  const ir::Graph unordered = model.step();
  model.options.head_rows = 8;
  const ir::Graph by_eight = model.step();
  model.options.head_rows = 16;
  const ir::Graph by_sixteen = model.step();
  const auto expect_other = [](const ir::Graph& one, const ir::Graph& other, Op op) {
    const ir::Node &node = first(one, op), &changed = first(other, op);
    EXPECT_NE(signature(one, node), signature(other, changed));
    EXPECT_EQ(machine::family(one, node), machine::family(signature(other, changed)));
    EXPECT_TRUE(CostModel(measured(one, 3)).is_measured(one, node));
    EXPECT_FALSE(CostModel(measured(one, 3)).is_measured(other, changed));
  };
  expect_other(ordered, unordered, Op::attention_grad);
  expect_other(by_eight, by_sixteen, Op::linear_cross_entropy_grad);
}

TEST(KernelSignature, LayersOfOneShapeShareThem) {
  SmallModel model;
  std::set<std::string> two, five;
  const auto collect = [&](std::set<std::string>& names) {
    const ir::Graph g = model.step();
    for (const ir::Node& node : g.nodes())
      if (is_kernel(node)) {
        names.insert(signature(g, node));
        EXPECT_EQ(machine::family(g, node), machine::family(signature(g, node)));
      }
  };
  collect(two);
  model.spec.layers = 5;
  collect(five);
  EXPECT_GT(two.size(), 20U);
  EXPECT_EQ(two.size(), five.size());
}

TEST(KernelCost, MeasuredSignaturesAreThemselves) {
  const ir::Graph g = SmallModel().step();
  const CostModel rates([] {
    Profile p = small_profile();
    p.kernels.clear();
    return p;
  }());
  const CostModel model(measured(g, 3));
  int seen = 0;
  for (const ir::Node& node : g.nodes()) {
    if (!is_kernel(node)) continue;
    EXPECT_TRUE(model.is_measured(g, node));
    EXPECT_FALSE(rates.is_measured(g, node));
    EXPECT_DOUBLE_EQ(model.kernel_seconds(g, node), 3 * rates.kernel_seconds(g, node)) << signature(g, node);
    ++seen;
  }
  EXPECT_GT(seen, 50);
}

/// Kernels that do the same work in another direction are other kernels.
TEST(KernelCost, MeasuredSignaturesOfEqualWorkDiffer) {
  SmallModel small;
  small.options.disable = {"fuse"};
  const ir::Graph g = small.step();
  Profile p = measured(g, 1);
  for (KernelSample& k : p.kernels)
    if (k.signature.find("inverse=1") != std::string::npos) k.seconds = 7;
  const CostModel model(p);
  int sevens = 0;
  for (const ir::Node& node : g.nodes()) {
    if (node.op != Op::rope) continue;
    const bool inverse = node.attributes.has(ir::Attr::inverse);
    sevens += inverse;
    EXPECT_EQ(model.kernel_seconds(g, node) == 7, inverse) << signature(g, node);
  }
  EXPECT_GT(sevens, 0);
}

TEST(KernelCost, WithoutMeasurementsItIsTheRoofline) {
  SmallModel small;
  const ir::Graph g = small.step();
  Profile p = small_profile();
  p.kernels.clear();
  const CostModel model(p);
  const ir::Node& product = first(g, Op::matmul);  // [2*16, 64] x [64, 64 + 2 * 32]
  EXPECT_DOUBLE_EQ(ops::cost(g, product).flops, 2.0 * 32 * 64 * 128);
  EXPECT_DOUBLE_EQ(model.kernel_seconds(g, product), 2.0 * 32 * 64 * 128 / 1e9 + 1e-6);
  const ir::Node& gate = first(g, Op::swiglu);  // it reads two and writes one of [2*16, 176]
  EXPECT_DOUBLE_EQ(model.kernel_seconds(g, gate), 3.0 * 4 * 32 * 176 / 1e9 + 1e-6);
  const ir::Node& attention = first(g, Op::attention);
  const double bytes = ops::cost(g, attention).bytes;
  EXPECT_DOUBLE_EQ(model.kernel_seconds(g, attention),
                   std::max(ops::cost(g, attention).flops / 5e8, bytes / 1e9) + 1e-6);
  EXPECT_EQ(model.kernel_seconds(g, first(g, Op::view)), 0);

  small.options.precision.params = DType::bf16;
  const ir::Graph half = small.step();
  const ir::Node& half_product = first(half, Op::matmul);
  EXPECT_DOUBLE_EQ(model.kernel_seconds(half, half_product),
                   std::max(2.0 * 32 * 64 * 128 / 2e9, ops::cost(half, half_product).bytes / 1e9) + 1e-6);
  EXPECT_THROW(model.kernel_seconds(g, first(g, Op::all_gather)), std::logic_error);
}

SmallModel in_float8() {
  SmallModel small;
  small.options.precision.params = DType::bf16;
  small.spec.float8 = {"layers.0.attn", "layers.1.attn"};
  small.options.float8 = true;
  return small;
}

/// A host decodes both operands, [2*16, 64] and [128, 64], into bf16 and reads them again. A device
/// transposes the weight of the gradient of x alone.
TEST(KernelCost, OperandsInFloat8AreMadeReady) {
  const ir::Graph g = in_float8().step();
  Profile p = small_profile();
  p.kernels.clear();
  const auto beyond_the_roofline = [&](Op op, double rate) {
    const ir::Node& node = first(g, op);
    const ops::Cost cost = ops::cost(g, node);
    return CostModel(p).kernel_seconds(g, node) - std::max(cost.flops / rate, cost.bytes / 1e9) - 1e-6;
  };
  const double x = 2 * 16 * 64, w = 64 * 128;
  EXPECT_NEAR(beyond_the_roofline(Op::matmul_f8, 2e9), 2 * 2 * (x + w) / 1e9, 1e-12);
  p.compute.matmul_f8 = 4e9;
  EXPECT_NEAR(beyond_the_roofline(Op::matmul_f8, 4e9), 0, 1e-12);
  EXPECT_NEAR(beyond_the_roofline(Op::matmul_dgrad_f8, 4e9),
              2 *
                  static_cast<double>(
                      g.local_elements(first(g, Op::matmul_dgrad_f8).in(ir::operand::matmul_dgrad_f8::w8))) /
                  1e9,
              1e-12);
}

/// Operands with one scale have a rate of their own, and measured products of the other kind say nothing of
/// them.
TEST(KernelCost, KindsOfScalesInFloat8HaveTheirOwnRates) {
  SmallModel small = in_float8();
  const ir::Graph rowwise = small.step();
  small.options.precision.float8_scales = Float8Scales::tensorwise;
  const ir::Graph tensorwise = small.step();
  Profile p = small_profile();
  p.kernels.clear();
  p.compute.matmul_f8 = 1;
  p.compute.matmul_f8_tensorwise = 2;
  const double seconds = CostModel(p).kernel_seconds(rowwise, first(rowwise, Op::matmul_f8));
  EXPECT_NEAR(CostModel(p).kernel_seconds(tensorwise, first(tensorwise, Op::matmul_f8)) / seconds, 0.5, 1e-6);
  for (const ir::Graph* g : {&rowwise, &tensorwise}) {
    const ir::Node& node = first(*g, Op::matmul_f8);
    EXPECT_EQ(machine::family(signature(*g, node)), machine::family(*g, node));
  }
  EXPECT_NE(machine::family(rowwise, first(rowwise, Op::matmul_f8)),
            machine::family(tensorwise, first(tensorwise, Op::matmul_f8)));
}

/// A longer sequence is estimated on a machine that was measured with a shorter one: the ratio carries over.
TEST(KernelCost, UnmeasuredShapesAreScaledFromTheNearest) {
  SmallModel model;
  const CostModel known(measured(model.step(), 3));
  const CostModel rates([] {
    Profile p = small_profile();
    p.kernels.clear();
    return p;
  }());
  model.seq = 32;
  const ir::Graph longer = model.step();
  int estimated = 0;
  for (const ir::Node& node : longer.nodes()) {
    if (!is_kernel(node) || known.is_measured(longer, node)) continue;
    ++estimated;
    EXPECT_NEAR(known.kernel_seconds(longer, node), 3 * rates.kernel_seconds(longer, node),
                1e-9 * rates.kernel_seconds(longer, node))
        << signature(longer, node);
  }
  EXPECT_GT(estimated, 20);
}

TEST(KernelCost, TheNearestOfAFamilyDecides) {
  const ir::Graph g = SmallModel().step();
  const ir::Node& product = first(g, Op::matmul);
  const ops::Cost cost = ops::cost(g, product);
  Profile p = small_profile();
  const auto roofline = [](double flops) { return flops / 1e9 + 1e-6; };
  // The kernel is compute-bound by far, so its roofline is FLOP / rate.
  p.kernels = {{"matmul f32[1] f32[1] -> f32[1]", 5 * roofline(2 * cost.flops), 2 * cost.flops, cost.bytes},
               {"matmul f32[2] f32[2] -> f32[2]", 9 * roofline(64 * cost.flops), 64 * cost.flops, cost.bytes},
               {"matmul_dgrad f32[3] f32[3] -> f32[3]", 77 * roofline(cost.flops), cost.flops, cost.bytes}};
  EXPECT_NEAR(CostModel(p).kernel_seconds(g, product), 5 * roofline(cost.flops), 1e-12);
  p.kernels[0].flops = 4096 * cost.flops;
  p.kernels[0].seconds = 5 * roofline(4096 * cost.flops);
  EXPECT_NEAR(CostModel(p).kernel_seconds(g, product), 9 * roofline(cost.flops), 1e-12);
}

/// Two models made of one profile's text give the same numbers; ranks that read the same file rely on it.
TEST(KernelCost, IsAFunctionOfTheProfilesText) {
  SmallModel model;
  const Profile p = measured(model.step(), 2);
  model.seq = 24;
  const ir::Graph other = model.step();
  auto first = std::make_unique<CostModel>(p);
  const CostModel copied = *first;
  const double compute = machine::predict(other, *first).compute_s;
  first.reset();  // a copy owns what it holds
  EXPECT_EQ(machine::predict(other, copied).compute_s, compute);
  const CostModel read(machine::parse_profile(print_profile(p), "m.toml"));
  EXPECT_EQ(machine::predict(other, read).compute_s, compute);
}

TEST(Prediction, SumsTheNodesOfAStep) {
  const ir::Graph g = SmallModel().step();
  const CostModel model(measured(g, 1));
  const machine::Prediction p = machine::predict(g, model);
  double compute = 0, gather = 0, reduce = 0, norm = 0;
  for (const ir::Node& node : g.nodes()) {
    if (is_kernel(node)) compute += model.kernel_seconds(g, node);
    if (node.op == Op::all_gather && node.lane == Lane::gather)
      gather += model.collective_seconds(Op::all_gather, 2,
                                         static_cast<double>(g.local_bytes(node.outputs[0])) / 2);
    if (node.op == Op::reduce_scatter)
      reduce += model.collective_seconds(Op::reduce_scatter, 2,
                                         static_cast<double>(g.local_bytes(node.inputs[0])) / 2);
    if (ir::is_collective(node.op) && node.op != Op::reduce_scatter && node.lane == Lane::reduce)
      norm += model.collective_seconds(g, node);
  }
  EXPECT_DOUBLE_EQ(p.compute_s, compute);
  EXPECT_DOUBLE_EQ(p.lanes_s[Lane::gather], gather);
  EXPECT_GT(reduce, 0);
  EXPECT_GT(norm, 0);
  EXPECT_DOUBLE_EQ(p.lanes_s[Lane::reduce], reduce + norm) << "the norm's and the losses' come on top";
  EXPECT_EQ(p.kernels, p.measured);
  const std::string text = machine::prediction_text(p, model, "machine.toml");
  EXPECT_NE(text.find("from machine.toml (small, "), std::string::npos) << text;
}

}  // namespace
}  // namespace weft::test
