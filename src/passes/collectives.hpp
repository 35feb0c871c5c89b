// What the passes that move collectives have in common.
#pragma once

#include "ir/graph.hpp"

namespace weft::passes {

/// A gather of parameters for use in forward or backward: not the one that completes an update, not the
/// losses'.
bool is_parameter_gather(const ir::Node& node);

}  // namespace weft::passes
