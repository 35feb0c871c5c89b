// Shape rules: they give the types of an operation's outputs from those of its inputs.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace weft::ops {

/// What an operation's outputs are to data parallelism, when its inputs are cut along the batch (dimension
/// 0).
enum class BatchRule {
  rows,      ///< outputs are cut along the batch, too
  sums,      ///< outputs are sums over the batch: partial on each rank
  invariant  ///< inputs are not cut
};
BatchRule batch_rule(ir::Op op, std::size_t output);

/// Whether the output is a parameter's gradient. Its element type is then what goes over the wire
/// (precision.grad_wire).
bool is_parameter_gradient(ir::Op op, std::size_t output);

/// The global types of the outputs. `state`, `view`, `rank_slice`, `join`, `zeros` and what communicates have
/// no rule: whoever emits them says their types. Throws std::logic_error that names the operation when the
/// inputs do not fit each other.
std::vector<ir::Type> infer(const ir::Graph& graph, ir::Op op, std::span<const ir::ValueId> inputs,
                            const ir::Attributes& attributes);

/// Whether infer() knows the operation.
bool has_shape_rule(ir::Op op);

}  // namespace weft::ops
