// What forward leaves in memory for backward, by kind of module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace weft::plan {

struct KeptValue {
  std::string name;        ///< within its module: "q_rope"; "full" are gathered parameters
  std::int64_t bytes = 0;  ///< in all modules of the kind, on a rank
};

/// Modules that differ in the layer's number only are one kind.
struct KeptKind {
  std::string module;  ///< "layers.*.attn"
  int modules = 0;
  std::vector<KeptValue> kept;      ///< made by forward and read by backward, in forward's order
  std::vector<KeptValue> computed;  ///< made by forward and again by backward
  std::int64_t kept_bytes() const;
  std::int64_t computed_bytes() const;
};

/// Of one microbatch (the first round), in forward's order. State, inputs and constants are not among them:
/// they stand in storages.
std::vector<KeptKind> kept_for_backward(const ir::Graph& graph);

}  // namespace weft::plan
