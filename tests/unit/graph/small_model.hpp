// A Llama so small that its plans can be read.
#pragma once

#include <utility>
#include <vector>

#include "model/llama.hpp"
#include "passes/pass_list.hpp"
#include "plan/plan.hpp"

namespace weft::test {

struct SmallModel {
  model::Spec spec{64, 2, 4, 2, 176, 300, 1e-5, false};
  int ranks = 2;  ///< ranks of the data axis
  int replicas = 1;
  int pipe = 1;
  int context = 1;
  int tensor = 1;
  int team = 1;  ///< ranks of the data axis that share memory
  int tensor_team = 1;
  int context_team = 1;
  bool peer_reads = false;  ///< whether GPUs of the data axis read each other's gradients
  int rounds = 1;
  std::int64_t batch = 2, seq = 16;
  passes::PassOptions options;

  Mesh mesh() const {
    std::vector<MeshAxis> axes;
    if (replicas > 1) axes.push_back({"replica", replicas});
    if (pipe > 1) axes.push_back({"pipe", pipe});
    axes.push_back({"data", ranks});
    if (context > 1) axes.push_back({"context", context});
    if (tensor > 1) axes.push_back({"tensor", tensor});
    Mesh mesh(std::move(axes));
    mesh.set_teams({.data = team, .context = context_team, .tensor = tensor_team, .peer_reads = peer_reads});
    return mesh;
  }
  ir::Graph forward() const {
    return model::build_loss(spec, {batch * ranks * replicas, seq, rounds, context}, mesh(), "train").graph;
  }
  ir::Graph step(const passes::Observer& observer = {}) const {
    return passes::run(passes::training_passes(options), forward(), observer);
  }
};

/// A step in bf16 whose two layers have products of the same shapes; those of the second's ffn are in Float8.
inline ir::Graph small_step_with_float8() {
  SmallModel small;
  small.spec.float8 = {"layers.1.ffn"};
  small.options.float8 = true;
  small.options.precision.params = DType::bf16;
  return small.step();
}

inline constexpr ShardMode all_modes[] = {ShardMode::ddp, ShardMode::zero1, ShardMode::zero2,
                                          ShardMode::fsdp};

/// Scratch in the place of the kernels': a reduce-scatter wants as much as its input, a sum over replicas
/// half of that, and a matmul a little.
inline std::int64_t test_scratch(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == ir::Op::reduce_scatter) return graph.local_bytes(node.inputs[0]);
  if (node.op == ir::Op::all_reduce && node.lane == Lane::replica) {
    std::int64_t bytes = 0;
    for (const ir::ValueId input : node.inputs) bytes += graph.local_bytes(input) / 2;
    return bytes;
  }
  return node.op == ir::Op::matmul ? 1000 : 0;
}

}  // namespace weft::test
