// What an operation costs on one rank: the arithmetic, and the bytes that must cross memory at least once.
#pragma once

#include "ir/graph.hpp"

namespace weft::ops {

struct Cost {
  double flops = 0;  ///< multiply and add count as two; causal attention counts the lower triangle only
  double bytes = 0;  ///< inputs read once, outputs written once
};

Cost cost(const ir::Graph& graph, const ir::Node& node);

/// Of a collective with all its members: the whole vectors, and what one rank sends (and receives) in
/// messages: payload * (W - 1) / W, all_reduce twice that. In a team's memory (Attr::team) a gather sends its
/// shard to each other host once, a reduce-scatter a slice to each rank of other hosts. Of a table whose
/// unused rows are not sent (Attr::used), an estimate.
std::int64_t payload_bytes(const ir::Graph& graph, const ir::Node& collective);
std::int64_t wire_bytes(const ir::Graph& graph, const ir::Node& collective);
/// What the ranks of a team read and write in each other's memory instead.
std::int64_t local_bytes(const ir::Graph& graph, const ir::Node& collective);
int team_of(const ir::Node& collective);  ///< 1: it is not shared
/// The storage of which a gather's member finds all slices where it wants them: a team that is the whole axis
/// keeps what it gathers in memory that all its ranks see, slice beside slice. Invalid: slices are copied.
ir::StorageId gathered_in_place(const ir::Graph& graph, const ir::Node& gather, std::size_t member);
/// Of the members that are not gathered in place, the whole vectors: what a gather takes memory for.
std::int64_t copied_bytes(const ir::Graph& graph, const ir::Node& gather);
/// Ranks of the axis that it runs over.
int ranks_of(const ir::Graph& graph, const ir::Node& collective);
/// World ranks from the first of these to the last: ranks that stand apart are on different nodes.
int span_of(const ir::Graph& graph, const ir::Node& collective);

}  // namespace weft::ops
