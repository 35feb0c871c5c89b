// Tests norms whose weights are read as fp32 beside matrices in bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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
      for (const ir::Node& node : graph.nodes()) {
        if (node.op == Op::matmul) {
          EXPECT_EQ(graph.value(node.inputs[1]).type.dtype, DType::bf16) << node.module;
        }
        if (node.op == Op::embedding) {
          EXPECT_EQ(graph.value(node.inputs[1]).type.dtype, DType::bf16) << node.module;
        }
      }
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

/// Once a step, with the bytes of fp32; what the other units send has lost the norm, and no more.
TEST(Norms, AreGatheredOnceAStep) {
  const auto gathered = [](const ir::Graph& graph) {
    std::map<std::string, std::vector<std::int64_t>> bytes;
    for (const ir::Node& node : graph.nodes())
      if (passes::is_parameter_gather(node)) bytes[node.module].push_back(ops::wire_bytes(graph, node));
    return bytes;
  };
  const SmallModel m = model_of({1, false, false}, true);
  const ir::Graph graph = m.step();
  const auto before = gathered(model_of({1, false, false}, false).step()), after = gathered(graph);
  const Unit& whole = graph.units().front();
  EXPECT_EQ(after.at("whole"), std::vector<std::int64_t>{4 * whole.padded_elements(m.ranks) / m.ranks});
  for (const auto& [unit, bytes] : before) {
    ASSERT_EQ(after.at(unit).size(), bytes.size()) << unit;
    for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_LE(after.at(unit)[i], bytes[i]) << unit;
  }
}

/// Such a matrix is in no unit of norms, because its type is another one.
TEST(Norms, AMatrixThatAllRanksHaveWholeStaysInBf16) {
  SmallModel m = model_of({2, false, false}, true);
  m.spec.kv_heads = 1;
  const ir::Graph graph = m.step();
  for (const Unit& unit : graph.units())
    for (const Parameter& p : unit.parameters)
      if (p.path.ends_with(".wk")) {
        EXPECT_TRUE(unit.path.ends_with(".copies")) << unit.path;
        EXPECT_EQ(unit.copies, 2);
      }
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == Op::matmul) {
      EXPECT_EQ(graph.value(node.inputs[1]).type.dtype, DType::bf16) << node.module;
    }
  }
}

}  // namespace
}  // namespace weft
