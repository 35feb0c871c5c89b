// Tests norms whose weights are read as fp32 beside matrices in bf16.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "ops/cost.hpp"
#include "passes/collectives.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Op;
using test::SmallModel;
using namespace ir::operand;

struct Kind {
  int tensor;
  bool tied, float8;
};
constexpr Kind kinds[] = {{1, false, false}, {1, true, false}, {1, false, true},
                          {2, false, false}, {2, true, false}, {2, false, true}};

SmallModel model_of(const Kind& kind, bool f32_norms) {
  SmallModel m;
  m.tensor = kind.tensor;
  m.options.partition = kind.tensor > 1;
  m.spec.tie_embeddings = kind.tied;
  m.options.precision.params = DType::bf16;
  m.spec.f32_norms = m.options.f32_norms = f32_norms;
  m.options.float8 = kind.float8;
  if (kind.float8) m.spec.float8 = {"layers.1.attn", "layers.1.ffn"};
  return m;
}

testing::Message name(const Kind& kind) {
  return testing::Message() << "tensor " << kind.tensor << ", tied " << kind.tied << ", Float8 "
                            << kind.float8;
}

bool is_product(Op op) {
  return op == Op::matmul || op == Op::matmul_dgrad || op == Op::matmul_wgrad || op == Op::embedding ||
         op == Op::linear_cross_entropy_grad;
}

/// The weight's types of all norms, forward and backward.
std::vector<DType> types_of_norms(const ir::Graph& graph) {
  std::vector<DType> types;
  const auto add = [&](ir::ValueId weight) { types.push_back(graph.value(weight).type.dtype); };
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == Op::rms_norm) add(node.in(rms_norm::w));
    if (node.op == Op::add_rms_norm) add(node.in(add_rms_norm::w));
    if (node.op == Op::rms_norm_grad) add(node.in(rms_norm_grad::w));
  }
  return types;
}

TEST(Norms, AreReadAsF32AndNothingElseIs) {
  for (const Kind& kind : kinds)
    for (const bool f32_norms : {false, true}) {
      SCOPED_TRACE(name(kind));
      const ir::Graph graph = model_of(kind, f32_norms).step();
      const std::vector<DType> types = types_of_norms(graph);
      const auto norms = static_cast<std::size_t>(2 * model_of(kind, f32_norms).spec.layers + 1);
      EXPECT_EQ(types, std::vector<DType>(2 * norms, f32_norms ? DType::f32 : DType::bf16));
      // Float8's products read scales beside.
      std::set<DType> read;
      for (const ir::Node& node : graph.nodes())
        if (is_product(node.op))
          for (const ir::ValueId input : node.inputs) read.insert(graph.value(input).type.dtype);
      EXPECT_TRUE(read.contains(DType::bf16));
      EXPECT_FALSE(read.contains(DType::f32));
    }
}

TEST(Norms, OfAllLayersAreOneUnitWithoutACopy) {
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(name(kind));
    const SmallModel m = model_of(kind, true);
    const ir::Graph graph = m.step();
    ASSERT_FALSE(graph.units().empty());
    EXPECT_EQ(graph.units().front().path, "whole");
    EXPECT_EQ(static_cast<std::int64_t>(graph.units().front().parameters.size()), 2 * m.spec.layers + 1);
    for (const Unit& unit : graph.units()) {
      EXPECT_GT(unit.elements, 0) << unit.path;
      EXPECT_EQ(unit.f32_norms, unit.path == "whole");
      for (const Parameter& p : unit.parameters)
        EXPECT_EQ(p.path.ends_with(".norm"), unit.path == "whole") << p.path;
    }
    for (const ir::Storage& storage : graph.storages()) EXPECT_NE(storage.name, "param.whole");
  }
}

/// Once a step, with the bytes of fp32; the other units have lost their norm, and nothing else.
TEST(Norms, AreGatheredOnceAStep) {
  SmallModel m = model_of({1, false, false}, true);
  m.rounds = 2;
  const ir::Graph graph = m.step();
  const std::vector<Unit> before = model_of({1, false, false}, false).step().units();
  const Unit& whole = graph.units().front();
  std::vector<std::int64_t> gathered;
  for (const ir::Node& node : graph.nodes())
    if (passes::is_parameter_gather(node) && node.module == whole.path)
      gathered.push_back(ops::wire_bytes(graph, node));
  EXPECT_EQ(gathered, std::vector<std::int64_t>{4 * whole.padded_elements(m.ranks) / m.ranks});
  ASSERT_EQ(graph.units().size(), before.size() + 1);
  for (std::size_t u = 0; u < before.size(); ++u) {
    EXPECT_EQ(graph.units()[u + 1].path, before[u].path);
    EXPECT_EQ(graph.units()[u + 1].elements,
              before[u].elements - (before[u].path == "embed" ? 0 : m.spec.dim));
  }
}

/// Such a matrix is in no unit of norms, because its type is another one.
TEST(Norms, AMatrixThatAllRanksHaveWholeStaysInBf16) {
  SmallModel m = model_of({2, false, false}, true);
  m.spec.kv_heads = 1;
  const ir::Graph graph = m.step();
  std::int64_t found = 0;
  for (const Unit& unit : graph.units())
    for (const Parameter& p : unit.parameters)
      if (p.path.ends_with(".wk") || p.path.ends_with(".wv")) {
        EXPECT_TRUE(unit.path.ends_with(".copies")) << unit.path;
        EXPECT_EQ(unit.copies, 2);
        EXPECT_FALSE(unit.f32_norms);
        ++found;
      }
  EXPECT_EQ(found, 2 * m.spec.layers);
}

/// A stage may have layers in Float8 and norms alone, so nothing there is kept in bf16. Its masters are cut
/// as those of the other stages are.
TEST(Norms, LeaveMastersCutInEveryStage) {
  for (const ShardMode mode : {ShardMode::zero1, ShardMode::zero2})
    for (const int place : {0, 1, 2}) {
      SmallModel m = model_of({1, false, true}, true);
      m.spec.layers = m.pipe = m.rounds = 3;
      m.options.shard.mode = mode;
      m.options.stage =
          passes::StageOptions{PipelineKind::one_f_one_b,
                               {3, 1, 3},
                               place,
                               {0, model::first_unit_of_layer(1), model::first_unit_of_layer(2)},
                               {}};
      const ir::Graph graph = m.step();
      const auto axis = static_cast<std::size_t>(graph.mesh().axis(data_axis));
      std::size_t masters = 0;
      for (const ir::Storage& storage : graph.storages()) {
        if (storage.role != ir::Role::master) continue;
        EXPECT_EQ(storage.placement.at(axis).kind, ir::Placement::Kind::shard)
            << storage.name << " at place " << place;
        ++masters;
      }
      EXPECT_EQ(masters, graph.units().size());
    }
}

}  // namespace
}  // namespace weft
