// Functions that the passes which move collectives have in common.
#pragma once

#include "ir/graph.hpp"

namespace weft::passes {

/// Whether the node gathers parameters for use in forward or backward. The gathers that complete an update,
/// and those of the losses, do not.
bool is_parameter_gather(const ir::Node& node);

/// Whether the node is a collective that makes activations of activations, over the tensor or the context
/// axis.
inline bool is_between_activations(const ir::Node& node) {
  return ir::is_collective(node.op) && node.phase != ir::Phase::update &&
         !node.attributes.has(ir::Attr::largest) &&  // that is of weights
         (node.lane == Lane::tensor || node.lane == Lane::context);
}

/// Whether the rounds take turns two and two (the pass alternate): the second's forward stands before the
/// first's backward, and no pipe has put it there.
inline bool take_turns(const ir::Graph& graph) {
  if (graph.mesh().size(pipe_axis) > 1) return false;
  for (const ir::Node& node : graph.nodes()) {
    if (ir::communicates(node.op) || ir::is_alias(node.op))
      continue;  // order may have begun a gather earlier
    if (node.phase != ir::Phase::forward) return false;
    if (node.round == 1) return true;
  }
  return false;
}

/// Whether a unit's parameters stay gathered from forward to backward: those of the last `keep_units` units
/// do. (What all ranks of a tensor axis have is small, and is gathered once a step.)
inline bool stays_gathered(ir::UnitId unit, int keep_units, std::size_t units) {
  return unit.index() + static_cast<std::size_t>(keep_units) >= units;
}

/// The most nodes for which the operands of a collective are held: as many as some blocks have. Without this
/// limit, a round's last gradient would stay through the next forward.
constexpr std::size_t longest_hold(int delay) {
  constexpr std::size_t nodes_a_block = 32;
  return nodes_a_block * static_cast<std::size_t>(delay);
}

}  // namespace weft::passes
