// What an operation costs on one rank: the arithmetic, and the bytes that must cross memory at least once.
#pragma once

#include "ir/graph.hpp"

namespace weft::ops {

struct Cost {
  double flops = 0;  ///< multiply and add count as two; causal attention counts the lower triangle only
  double bytes = 0;  ///< inputs read once, outputs written once
};

Cost cost(const ir::Graph& graph, const ir::Node& node);

}  // namespace weft::ops
