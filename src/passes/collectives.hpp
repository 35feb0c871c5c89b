// What the passes that move collectives have in common.
#pragma once

#include "ir/graph.hpp"

namespace weft::passes {

/// A gather of parameters for use in forward or backward: not the one that completes an update, not the
/// losses'.
bool is_parameter_gather(const ir::Node& node);

/// Whether a unit's parameters stay gathered from forward to backward: those of the last `keep_units` units
/// do.
inline bool stays_gathered(ir::UnitId unit, int keep_units, std::size_t units) {
  return unit.index() + static_cast<std::size_t>(keep_units) >= units;
}

/// Nodes for which what a collective reads is held at most: some blocks' worth, or a round's last gradient
/// would stay through the next forward.
constexpr std::size_t longest_hold(int delay) {
  constexpr std::size_t nodes_a_block = 32;
  return nodes_a_block * static_cast<std::size_t>(delay);
}

}  // namespace weft::passes
