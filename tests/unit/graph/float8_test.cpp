// Tests products in Float8: which units have them, what is gathered, and that nothing else changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ops/cost.hpp"
#include "passes/collectives.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Op;
using test::SmallModel;

SmallModel small() {
  SmallModel m;
  m.spec.layers = 3;
  m.options.precision.params = m.options.precision.grad_wire = DType::bf16;
  return m;
}

SmallModel in_float8() {
  SmallModel m = small();
  m.spec.float8 = {"layers.1.attn", "layers.1.ffn", "layers.2.ffn"};
  m.options.float8 = true;
  return m;
}

std::map<Op, int> counts(const ir::Graph& graph) {
  std::map<Op, int> list;
  for (const ir::Node& node : graph.nodes()) ++list[node.op];
  return list;
}

/// Bytes that the gathers of each unit send, forward and backward together.
std::map<std::string, std::int64_t> gathered(const ir::Graph& graph) {
  std::map<std::string, std::int64_t> bytes;
  for (const ir::Node& node : graph.nodes())
    if (passes::is_parameter_gather(node)) bytes[node.module] += ops::wire_bytes(graph, node);
  return bytes;
}

/// Exactly half of the bytes are sent that the same elements take as bf16. Without a tensor axis the unit
/// also loses its norm, and the padding that this brought.
TEST(Float8, MatricesAreGatheredAsBytes) {
  for (const int tensor : {1, 2}) {
    SmallModel before = small(), after = in_float8();
    before.tensor = after.tensor = tensor;
    before.options.partition = after.options.partition = tensor > 1;
    const ir::Graph graph = after.step();
    const auto bf16 = gathered(before.step()), f8 = gathered(graph);
    for (const Unit& unit : graph.units()) {
      SCOPED_TRACE(unit.path);
      const std::int64_t bytes = f8.at(unit.path), padded = unit.padded_elements(after.ranks);
      if (!unit.float8) {
        EXPECT_EQ(bytes % padded, 0);
        if (bf16.contains(unit.path)) {
          EXPECT_EQ(bytes, bf16.at(unit.path));
        }
        continue;
      }
      EXPECT_EQ(bytes, 2 * padded / after.ranks);  // forward and backward
      const std::int64_t lost = tensor == 1 ? after.ranks * shard_granularity : 0;
      EXPECT_EQ(2 * bytes + 2 * 2 * lost / after.ranks, bf16.at(unit.path));
    }
    EXPECT_EQ(
        std::count_if(graph.units().begin(), graph.units().end(), [](const Unit& u) { return u.float8; }), 3);
  }
}

TEST(Float8, OnlyProductsWithTheseWeightsAreInIt) {
  const auto before = counts(small().step()), after = counts(in_float8().step());
  // Fused: q, k and v; the projection; gate and up; down. Each forward and as the gradient of its operand, of
  // which one is of the other kind.
  EXPECT_EQ(after.at(Op::matmul_f8) + after.at(Op::matmul_dgrad_f8), 2 * (2 + 2 * 2));
  EXPECT_EQ(after.at(Op::matmul) + after.at(Op::matmul_dgrad),
            before.at(Op::matmul) + before.at(Op::matmul_dgrad) - 12);
  EXPECT_EQ(after.at(Op::matmul_wgrad), before.at(Op::matmul_wgrad));
  EXPECT_EQ(after.at(Op::quantize), 12);  // of each product's activations
  EXPECT_EQ(after.at(Op::quantize_unit), 3);
  EXPECT_EQ(after.at(Op::float8_scales), 1);
  EXPECT_EQ(before.count(Op::quantize_unit), 0U);
  for (const GradientFormat format : {GradientFormat::e4m3, GradientFormat::e5m2}) {
    SmallModel m = in_float8();
    m.options.precision.float8_gradients = format;
    const ir::Graph graph = m.step();
    for (const ir::Node& node : graph.nodes())
      if (node.op == Op::quantize) {
        const bool wide = node.phase == ir::Phase::backward && format == GradientFormat::e5m2;
        EXPECT_EQ(graph.value(node.outputs[0]).type.dtype, wide ? DType::e5m2 : DType::e4m3) << node.module;
      }
  }
}

/// A scale is of all matrices of a module that are stored the same way round, wherever these are.
TEST(Float8, NeighboursWithCopiesHaveTheScalesOfTheirModule) {
  for (const std::int64_t kv_heads : {2, 1}) {
    SCOPED_TRACE(kv_heads);
    SmallModel m = in_float8();
    m.spec.kv_heads = kv_heads;
    m.tensor = 4;
    m.options.partition = true;
    const ir::Graph graph = m.step();
    std::map<std::string, std::set<std::int64_t>> slots;
    for (const ir::Node& node : graph.nodes())
      if (node.op == Op::quantize_unit)
        slots[node.module.substr(0, std::string("layers.1.attn").size())].insert(
            node.attributes.integer(ir::Attr::slot));
    EXPECT_EQ(slots.size(), 3U);
    for (const auto& [module, of_module] : slots) EXPECT_EQ(of_module.size(), 1U) << module;
    const auto has = [&](const char* path) {
      return std::any_of(graph.units().begin(), graph.units().end(),
                         [&](const Unit& unit) { return unit.path == path; });
    };
    EXPECT_TRUE(has("layers.1.attn.copies"));
    for (const Unit& unit : graph.units())
      for (const Parameter& p : unit.parameters)
        if (p.path.starts_with("layers.1.") && p.shape.size() > 1) {
          EXPECT_TRUE(unit.float8) << p.path;
        }
  }
}

/// The largest magnitudes are taken over every axis that cuts the masters, and before any weight is
/// quantised.
TEST(Float8, ScalesAreThoseOfWholeMatrices) {
  for (const int tensor : {1, 2})
    for (const ShardMode mode : test::all_modes) {
      SmallModel m = in_float8();
      m.tensor = tensor;
      m.options.partition = tensor > 1;
      m.options.shard.mode = mode;
      const ir::Graph graph = m.step();
      std::multiset<std::int64_t> axes, expected;
      bool quantised = false;
      for (const ir::Node& node : graph.nodes()) {
        quantised = quantised || node.op == Op::quantize_unit;
        if (!node.attributes.has(ir::Attr::largest)) continue;
        EXPECT_FALSE(quantised);
        EXPECT_EQ(node.op, Op::all_reduce);
        axes.insert(node.attributes.integer(ir::Attr::axis));
      }
      if (mode != ShardMode::ddp) expected.insert(graph.mesh().axis(data_axis));
      if (tensor > 1) expected.insert(graph.mesh().axis(tensor_axis));
      EXPECT_EQ(axes, expected);
    }
}

/// Bytes that gathers of rows over the tensor axis send in forward, by module.
std::map<std::string, std::int64_t> rows_gathered(const ir::Graph& graph) {
  std::map<std::string, std::int64_t> bytes;
  for (const ir::Node& node : graph.nodes())
    if (node.op == Op::all_gather && node.lane == Lane::tensor && node.phase == ir::Phase::forward)
      bytes[node.module] += ops::wire_bytes(graph, node);
  return bytes;
}

/// Where backward gathers again what weights' gradients read, or where there is no backward, forward gathers
/// half the bytes, and a scale of four bytes for each row. Otherwise one gather in bf16 serves both.
TEST(Float8, RowsAreGatheredInItWhereNothingElseReadsThem) {
  const auto graph_of = [](Recompute what, bool training, bool first,
                           Float8Scales scales = Float8Scales::rowwise) {
    SmallModel m = in_float8();
    m.options.precision.float8_scales = scales;
    m.tensor = 2;
    m.options.partition = true;
    m.options.recompute.what = what;
    if (!first) m.options.disable = {"quantize_first"};
    return training ? m.step() : passes::run(passes::forward_passes(m.options), m.forward());
  };
  for (const bool training : {true, false})
    for (const Recompute what : {Recompute::none, Recompute::full}) {
      const auto off = rows_gathered(graph_of(what, training, false)),
                 on = rows_gathered(graph_of(what, training, true));
      ASSERT_EQ(on.size(), off.size());
      for (const auto& [module, bytes] : off) {
        SCOPED_TRACE(module);
        const bool narrow = module == "layers.1.attn" || module == "layers.1.ffn" || module == "layers.2.ffn";
        const std::int64_t scales = bytes / (2 * small().spec.dim) * 4;
        const bool alone = !training || what == Recompute::full;
        EXPECT_EQ(on.at(module), narrow && alone ? bytes / 2 + scales : bytes);
      }
    }
  // A scale of all rows is not known before all are there.
  EXPECT_EQ(rows_gathered(graph_of(Recompute::full, false, true, Float8Scales::tensorwise)),
            rows_gathered(graph_of(Recompute::full, false, false)));
}

TEST(Float8, ModesThatKeepParametersGatherThemOnce) {
  for (const ShardMode mode : test::all_modes) {
    SmallModel m = in_float8();
    m.rounds = 2;
    m.options.shard.mode = mode;
    int gathers = 0;
    const ir::Graph graph = m.step();
    for (const ir::Node& node : graph.nodes())
      if (passes::is_parameter_gather(node) && node.module == "layers.1.ffn") ++gathers;
    EXPECT_EQ(gathers, mode == ShardMode::ddp ? 0 : mode == ShardMode::fsdp ? 4 : 1);
  }
}

}  // namespace
}  // namespace weft
