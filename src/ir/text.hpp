// The stable text form of a graph, with a line for each node. A value's type stands where it is made:
//
//   forward r0 compute layers.0.ffn | layers.0.ffn.act:f32[4,16,176]{S0} = swiglu(layers.0.ffn.gate_up)
//
// Braces hold a placement for each axis: S0 is cut along dimension 0, R replicated, P a partial sum. u(PATH)
// stands behind the type of a flat unit, and @NAME names the value's storage. r0.1 is round 0 of the rank's
// second stage of a pipe.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.hpp"

namespace weft::ir {

std::string print(const Graph& graph);
/// The inverse of print(): print(parse(text)) == text. Throws Error(bad_input) "graph text:LINE: PROBLEM".
Graph parse(std::string_view text);
/// The lines that differ between `before` and `after`, as "- line" and "+ line" in order (longest common
/// subsequence), and a last line that counts them. Empty when the two texts are equal.
std::string diff(const std::string& before, const std::string& after);

}  // namespace weft::ir
