// Names kernels by what their time depends on.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.hpp"

namespace weft::machine {

/// The operation, element types and extents on one rank, and the attributes that matter for the time: "matmul
/// bf16[2048,512] bf16[1536,512] -> bf16[2048,1536]", "attention ... heads=8 kv_heads=4". Units are flat,
/// with their padding.
std::string signature(const ir::Graph& graph, const ir::Node& node);

/// A signature without extents and attributes: "matmul bf16 bf16 -> bf16". Kernels of one family are alike
/// enough that one's ratio of measured to estimated time serves for another.
std::string family(std::string_view signature);
/// The family of the node's signature, which it does not make.
std::string family(const ir::Graph& graph, const ir::Node& node);

}  // namespace weft::machine
