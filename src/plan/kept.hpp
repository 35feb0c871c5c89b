// Lists what forward leaves in memory for backward, by kind of module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.hpp"

namespace weft::plan {

struct KeptValue {
  std::string name;        ///< name within its module: "q_rope"; "full" stands for gathered parameters
  std::int64_t bytes = 0;  ///< bytes on a rank, in all modules of the kind
};

/// What the modules of one kind keep. Modules that differ only in the number of their layer are of one kind.
struct KeptKind {
  std::string module;  ///< "layers.*.attn"
  int modules = 0;
  std::vector<KeptValue> kept;      ///< made by forward and read by backward, in forward's order
  std::vector<KeptValue> computed;  ///< made by forward and again by backward
  std::int64_t kept_bytes() const;
  std::int64_t computed_bytes() const;
};

/// What one microbatch (that of the first round) keeps, in forward's order. State, inputs and constants are
/// not counted: they stand in storages.
std::vector<KeptKind> kept_for_backward(const ir::Graph& graph);

}  // namespace weft::plan
