#include "exec/scratch.hpp"

#include <optional>

#include "base/align.hpp"
#include "comm/channel.hpp"
#include "exec/shapes.hpp"
#include "kernels/attention.hpp"
#include "kernels/float8_matmul.hpp"
#include "kernels/gpu_scratch.hpp"
#include "machine/elsewhere.hpp"
#include "ops/cost.hpp"

namespace weft::exec {
namespace {

using ir::Op;
using namespace ir::operand;

/// What the kernel of a node asks for in a build for GPUs; nothing where all builds ask for the same.
std::optional<std::size_t> gpu_bytes(const machine::Compute& machine, const ir::Graph& graph,
                                     const ir::Node& node) {
  namespace gpu = kernels::gpu;
  switch (node.op) {
    case Op::matmul:
    case Op::matmul_dgrad:
    case Op::matmul_wgrad: return gpu::product_bytes;
    case Op::matmul_f8:
    case Op::matmul_dgrad_f8: {
      const kernels::MatmulSpec spec = matmul_spec(graph, node);
      const Float8Scales scales = float8_scales(node);
      return machine.matmul_f8_of(scales) > 0 && gpu::takes_float8(spec)
                 ? gpu::float8_product_bytes(spec, scales)
                 : gpu::product_bytes + kernels::decoded_bytes(spec);
    }
    case Op::rms_norm_grad:
      return kernels::rms_norm_grad_scratch_bytes(row_shape(graph, node.in(rms_norm_grad::x)),
                                                  /*on_host=*/false);
    case Op::attention:
      return gpu::attention_bytes(dtype_of(graph, node.in(attention::q)), node.has(attention::positions));
    case Op::attention_grad:
      return gpu::attention_grad_bytes(attention_shape(graph, node, 0),
                                       dtype_of(graph, node.in(attention_grad::q)),
                                       node.has(attention_grad::positions));
    case Op::linear_cross_entropy:
      return kernels::linear_loss_scratch(linear_loss_spec(graph, node), gpu::product_bytes).loss;
    case Op::linear_cross_entropy_grad:
      return kernels::linear_loss_scratch(linear_loss_spec(graph, node), gpu::product_bytes).gradients;
    default: return std::nullopt;
  }
}

/// What all builds ask for alike.
std::size_t common_bytes(const ir::Graph& graph, const ir::Node& node) {
  switch (node.op) {
    case Op::embedding_grad:
      return kernels::embedding_grad_scratch_bytes(embedding_grad_shape(graph, node, 0));
    case Op::cross_entropy: return kernels::cross_entropy_scratch_bytes(loss_shape(graph, node, 0));
    case Op::all_reduce:
      if (!is_ordered_sum(graph, node)) return 0;
      [[fallthrough]];
    case Op::reduce_scatter: {
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < node.outputs.size(); ++i) bytes += member_scratch_bytes(graph, node, i);
      return bytes;
    }
    default: return 0;
  }
}

std::size_t scratch_bytes(Matmuls& matmuls, const ir::Graph& graph, const ir::Node& node) {
  switch (node.op) {
    case Op::matmul:
    case Op::matmul_dgrad:
    case Op::matmul_wgrad: return matmuls.get(matmul_spec(graph, node)).scratch_bytes();
    case Op::matmul_f8:
    case Op::matmul_dgrad_f8: return matmuls.get_float8(graph, node).scratch_bytes();
    case Op::attention:
      return kernels::attention_scratch_bytes(attention_shape(graph, node, 0),
                                              dtype_of(graph, node.in(attention::q)),
                                              node.has(attention::positions));
    case Op::attention_grad:
      return kernels::attention_grad_scratch_bytes(attention_shape(graph, node, 0),
                                                   dtype_of(graph, node.in(attention_grad::q)),
                                                   node.has(attention_grad::positions));
    case Op::rms_norm_grad:
      return kernels::rms_norm_grad_scratch_bytes(row_shape(graph, node.in(rms_norm_grad::x)));
    case Op::linear_cross_entropy: return matmuls.get(linear_loss_spec(graph, node)).loss_scratch_bytes();
    case Op::linear_cross_entropy_grad:
      return matmuls.get(linear_loss_spec(graph, node)).gradients_scratch_bytes();
    default: return common_bytes(graph, node);
  }
}

}  // namespace

std::size_t member_scratch_bytes(const ir::Graph& graph, const ir::Node& node, std::size_t member) {
  if (reads_peers(graph, node)) return 0;
  const int ranks = ops::ranks_of(graph, node);
  const std::int64_t elements = graph.local_elements(node.outputs[member]);
  const std::int64_t part = node.op == Op::all_reduce ? elements / ranks : elements;
  const std::size_t bytes = comm::reduce_scatter_scratch_bytes(
      ranks, part, dtype_of(graph, ir::member_input(node, member)), reduce_order(node), ops::team_of(node));
  return aligned(bytes);
}

plan::ScratchQuery scratch_query(Matmuls& matmuls) {
  return [&matmuls](const ir::Graph& graph, const ir::Node& node) {
    return static_cast<std::int64_t>(scratch_bytes(matmuls, graph, node));
  };
}

plan::ScratchQuery gpu_scratch_query(const machine::Compute& gpu) {
  return [gpu](const ir::Graph& graph, const ir::Node& node) {
    const std::optional<std::size_t> bytes = gpu_bytes(gpu, graph, node);
    return static_cast<std::int64_t>(bytes ? *bytes : common_bytes(graph, node));
  };
}

plan::ScratchQuery scratch_query(Matmuls& matmuls, const machine::Compute& machine) {
  return machine::is_gpu_elsewhere(machine) ? gpu_scratch_query(machine) : scratch_query(matmuls);
}

}  // namespace weft::exec
