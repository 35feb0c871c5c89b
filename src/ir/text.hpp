// The stable text form of a graph. One line a node; a value's type stands where it is made:
//
//   forward r0 compute layers.0.attn | layers.0.attn.q:f32[8,256,256]{S0} = matmul(layers.0.attn.h,
//   layers.0.attn.wq)
//
// {S0}: cut over this axis along dimension 0; {R}: replicated; {P}: a partial sum. u(PATH) marks a flat unit;
// @NAME the storage.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.hpp"

namespace weft::ir {

std::string print(const Graph& graph);
/// The inverse of print: print(parse(text)) == text. Throws Error(bad_input) "graph text:LINE: PROBLEM".
Graph parse(std::string_view text);
/// Lines of `before` and `after` that differ, as "- line" and "+ line" in order (longest common subsequence),
/// and a last line that counts them. Empty when the two texts are equal.
std::string diff(const std::string& before, const std::string& after);

}  // namespace weft::ir
