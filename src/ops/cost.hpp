// Tells what an operation costs on one rank: the arithmetic, and the bytes that must cross memory at least
// once.
#pragma once

#include "ir/graph.hpp"

namespace weft::ops {

struct Cost {
  double flops = 0;  ///< multiply and add count as two; causal attention counts the lower triangle only
  double bytes = 0;  ///< inputs read once, outputs written once
};

Cost cost(const ir::Graph& graph, const ir::Node& node);

/// The bytes of a collective with all its members, or of a message. payload_bytes counts the whole vectors.
/// wire_bytes counts what one rank sends (and receives) in messages: payload * (W - 1) / W, and twice that
/// for an all_reduce. In a team's memory (Attr::team) a gather into common memory sends its shard to each
/// other host once; others send a slice to each rank of other hosts. For a table whose unused rows are not
/// sent (Attr::used) it is an estimate.
std::int64_t payload_bytes(const ir::Graph& graph, const ir::Node& collective);
std::int64_t wire_bytes(const ir::Graph& graph, const ir::Node& collective);
/// Bytes that the ranks of a team read and write in each other's memory, in the place of messages.
std::int64_t local_bytes(const ir::Graph& graph, const ir::Node& collective);
int team_of(const ir::Node& collective);  ///< 1: the collective is not shared
/// Whether it is a gather whose result a team has in common: of parameters, over the data axis. On the tensor
/// axis each rank copies the neighbours' rows to memory of its own.
bool gathers_in_common(const ir::Node& collective);
/// The storage in which a gather's member finds all slices where it wants them: a team that is the whole axis
/// keeps what it gathers in memory that all its ranks see, slice beside slice. It is invalid when slices are
/// copied.
ir::StorageId gathered_in_place(const ir::Graph& graph, const ir::Node& gather, std::size_t member);
/// The storage in which the gradient of the first round's accumulate is made, because no other rank has a
/// part of the sum, which is that gradient as it is. It is invalid when the gradient is copied.
ir::StorageId summed_in_place(const ir::Graph& graph, const ir::Node& accumulate);
/// Bytes of the whole vectors of those members that are not gathered in place: the memory that a gather
/// takes.
std::int64_t copied_bytes(const ir::Graph& graph, const ir::Node& gather);
/// How many ranks the collective's axis has, or the message's.
int ranks_of(const ir::Graph& graph, const ir::Node& collective);
/// World ranks from the first of the collective's to the last, or between neighbours on a message's axis:
/// ranks that stand apart are on different hosts.
int span_of(const ir::Graph& graph, const ir::Node& collective);

}  // namespace weft::ops
