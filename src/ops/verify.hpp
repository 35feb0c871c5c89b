// Checks every node's types against its operation's shape rule, and its placements against what it does.
#pragma once

#include "ir/graph.hpp"

namespace weft::ops {

/// Throws std::logic_error that names the first node whose types do not follow its rule. Element types of
/// parameter gradients are free (precision.grad_wire).
void verify_types(const ir::Graph& graph);
/// Throws std::logic_error that names the first node whose operands and results do not lie over the axes data
/// and replica as what it does asks: a sum whose terms are still on several ranks is read by sums and by the
/// collective that completes it alone, a gather gathers parts, AdamW's state lies like the gradient. The
/// other axes cut the graph itself, and no placement tells of them. Holds before the pass shard, too, where
/// every value is replicated.
void verify_placements(const ir::Graph& graph);

}  // namespace weft::ops
