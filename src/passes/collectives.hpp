// What the passes that move collectives have in common.
#pragma once

#include "ir/graph.hpp"

namespace weft::passes {

/// A gather of parameters for use in forward or backward: not the one that completes an update, not the
/// losses'.
bool is_parameter_gather(const ir::Node& node);

/// Nodes for which what a collective reads is held at most: some blocks' worth, or a round's last gradient
/// would stay through the next forward.
constexpr std::size_t longest_hold(int delay) {
  constexpr std::size_t nodes_a_block = 32;
  return nodes_a_block * static_cast<std::size_t>(delay);
}

}  // namespace weft::passes
