// Tests that the verifier knows how each value lies over the mesh: no placement can be another one, and no
// collective can be missing.
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/verify.hpp"
#include "ops/verify.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;
using test::SmallModel;

/// A step of every mode on every kind of mesh, with either place of the sums over rounds.
template <class Visit>
void for_each_step(Visit&& visit) {
  struct Kind {
    const char* name;
    int ranks, replicas, context, tensor;
    bool float8 = false;
    int pipe = 1;
    bool f32_norms = false;
  };
  constexpr Kind kinds[] = {{"data", 2, 1, 1, 1},
                            {"replicas", 1, 2, 1, 1},
                            {"both", 2, 2, 1, 1},
                            {"context", 1, 1, 2, 1},
                            {"tensor", 2, 1, 1, 2},
                            {"all", 2, 2, 2, 2},
                            {"Float8", 2, 2, 1, 1, true},
                            {"Float8 tensor", 2, 1, 1, 2, true},
                            {"pipe", 2, 2, 1, 1, false, 2},
                            {"pipe, all", 2, 2, 2, 2, false, 2},
                            {"norms", 2, 2, 1, 1, false, 1, true},
                            {"all, norms", 2, 2, 2, 2, false, 2, true}};
  for (const Kind& kind : kinds)
    for (const ShardMode mode : test::all_modes)
      for (const Accumulation accumulation : {Accumulation::each, Accumulation::once}) {
        SmallModel model;
        model.ranks = kind.ranks;
        model.replicas = kind.replicas;
        model.context = kind.context;
        model.tensor = kind.tensor;
        model.rounds = 2;
        model.options.context = kind.context > 1;
        model.options.partition = kind.tensor > 1;
        model.options.shard.mode = mode;
        model.options.shard.accumulation = accumulation;
        model.spec.f32_norms = model.options.f32_norms = kind.f32_norms;
        if (kind.f32_norms) model.options.precision.params = DType::bf16;
        if (kind.float8) {
          model.spec.float8 = {"layers.1.attn", "layers.1.ffn"};
          model.options.float8 = true;
          model.options.precision.params = DType::bf16;
        }
        for (int place = 0; place < kind.pipe; ++place) {
          if (kind.pipe > 1) {
            const std::size_t border = model::first_unit_of_layer(1);
            model.pipe = kind.pipe;
            model.options.stage = passes::StageOptions{
                PipelineKind::one_f_one_b, {kind.pipe, 1, model.rounds}, place, {0, border}, {}};
          }
          SCOPED_TRACE(::testing::Message()
                       << kind.name << ", place " << place << ", mode " << static_cast<int>(mode)
                       << (accumulation == Accumulation::once ? ", once" : ""));
          visit(model.step());
        }
      }
}

bool is_refused(const ir::Graph& graph) {
  try {
    ops::verify_placements(graph);
  } catch (const std::logic_error&) {
    return true;
  }
  return false;
}

TEST(Placements, NoneCanBeAnotherOne) {
  std::size_t changed = 0;
  for_each_step([&](ir::Graph graph) {
    ASSERT_FALSE(is_refused(graph));
    for (const Node& node : graph.nodes()) {
      if (node.op == Op::zeros) continue;  // they lie in every way at once
      for (const ValueId output : node.outputs)
        for (std::size_t axis = 0; axis < graph.mesh().axes().size(); ++axis) {
          const std::string& name = graph.mesh().axes()[axis].name;
          if (graph.mesh().size(static_cast<int>(axis)) == 1 || (name != data_axis && name != replica_axis))
            continue;
          ir::Placements& placement = graph.value(output).placement;
          const ir::Placements right = placement;
          if (placement.empty()) placement = ir::Placements(graph.mesh().axes().size());
          const ir::Placement as_made = placement[axis];
          for (const ir::Placement other : {ir::replicate, ir::partial, ir::shard(0)}) {
            if (other.kind == as_made.kind) continue;
            placement[axis] = other;
            ++changed;
            EXPECT_TRUE(is_refused(graph))
                << graph.value(output).name << " over " << name << ", a " << ir::name_of(node.op)
                << "'s, as kind " << static_cast<int>(other.kind);
          }
          graph.value(output).placement = right;
        }
    }
  });
  EXPECT_GT(changed, 10000U);
}

/// The graph without one of its collectives: what it made is what it read.
ir::Graph without(const ir::Graph& graph, std::size_t collective) {
  ir::Graph after = graph.without_nodes();
  std::map<ValueId, ValueId> instead;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    Node node = graph.nodes()[i];
    for (ValueId& input : node.inputs)
      if (const auto found = instead.find(input); found != instead.end()) input = found->second;
    if (i == collective)
      for (std::size_t member = 0; member < node.outputs.size(); ++member)
        instead[node.outputs[member]] = ir::member_input(node, member);
    else
      after.add_node(std::move(node));
  }
  return after;
}

TEST(Placements, NoCollectiveCanBeMissing) {
  std::size_t missing = 0;
  for_each_step([&](const ir::Graph& graph) {
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (!ir::is_collective(node.op)) continue;
      const bool placed =
          node.lane == Lane::gather || node.lane == Lane::reduce || node.lane == Lane::replica;
      if (!placed) continue;
      ++missing;
      EXPECT_TRUE(is_refused(without(graph, i)))
          << graph.value(node.outputs.front()).name << " = " << ir::name_of(node.op);
    }
  });
  EXPECT_GT(missing, 500U);
}

TEST(Placements, ACollectiveRunsOverTheAxisOfItsLane) {
  SmallModel model;
  model.replicas = 2;
  const ir::Graph good = model.step();
  std::size_t moved = 0;
  for (std::size_t i = 0; i < good.nodes().size(); ++i) {
    if (!ir::is_collective(good.nodes()[i].op)) continue;
    ir::Graph graph = good.without_nodes();
    for (std::size_t k = 0; k < good.nodes().size(); ++k) {
      Node node = good.nodes()[k];
      if (k == i) node.attributes.set(ir::Attr::axis, 1 - node.attributes.integer(ir::Attr::axis));
      graph.add_node(std::move(node));
    }
    ++moved;
    EXPECT_THROW(ir::verify(graph), std::logic_error) << i;
  }
  EXPECT_GT(moved, 10U);
}

}  // namespace
}  // namespace weft
