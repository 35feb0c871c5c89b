// The structural verifier checks what every graph must satisfy between passes. ops/verify.hpp checks types
// against operations.
#pragma once

#include "ir/graph.hpp"

namespace weft::ir {

/// Throws std::logic_error that names the node when an input is missing, or not defined before its use; when
/// a value is made twice or by nobody; when a stale version of a storage is read; when a placement does not
/// fit the mesh; when a join's part is used elsewhere or made by an alias; when a view leaves its unit; when
/// a collective is on the compute lane, or another node is not.
void verify(const Graph& graph);

}  // namespace weft::ir
