// Functions that the passes which move collectives have in common.
#pragma once

#include "ir/graph.hpp"

namespace weft::passes {

/// Whether the node gathers parameters for use in forward or backward. The gathers that complete an update,
/// and those of the losses, do not.
bool is_parameter_gather(const ir::Node& node);

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
