// Checks every node's types against its operation's shape rule.
#pragma once

#include "ir/graph.hpp"

namespace weft::ops {

/// Throws std::logic_error that names the first node whose types do not follow its rule. Element types of
/// parameter gradients are free (precision.grad_wire).
void verify_types(const ir::Graph& graph);

}  // namespace weft::ops
