// The structural verifier: what every graph must satisfy between passes. Types against operations are checked
// in ops/verify.hpp.
#pragma once

#include "ir/graph.hpp"

namespace weft::ir {

/// Throws std::logic_error that names the node when: an input is missing, or not defined before its use; a
/// value is made twice or by nobody; a stale version of a storage is read; a placement does not fit the mesh;
/// a join's part is used elsewhere or made by an alias; a view leaves its unit; a collective is on the
/// compute lane, or another node is not.
void verify(const Graph& graph);

}  // namespace weft::ir
