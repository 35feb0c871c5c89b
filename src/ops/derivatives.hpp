// Emits derivatives: the backward nodes of one forward node.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.hpp"
#include "ops/builder.hpp"

namespace weft::ops {

/// Emits the backward of `node`, and returns a gradient for each of its inputs; an invalid id means that the
/// input has none (integers, tables). `output_gradients` has an entry for each output; an invalid one is a
/// zero gradient. `so_far` has an entry for each input: the sum of the gradients that its other uses gave it,
/// or an invalid id; what is returned for the input contains it. Gradients of cross_entropy are of the SUM of
/// the losses: the mean's 1/tokens is applied with the clip scale (docs/decisions.md). Throws
/// std::logic_error for an operation without a derivative.
std::vector<ir::ValueId> differentiate(Builder& builder, const ir::Node& node,
                                       std::span<const ir::ValueId> output_gradients,
                                       std::span<const ir::ValueId> so_far);

}  // namespace weft::ops
