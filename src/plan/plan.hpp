// A plan: the graph lowered to a flat list of instructions, with an address for every value and the events
// that order lanes. It is a pure function of the graph and the scratch sizes; it does not depend on the rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace weft::plan {

/// Where bytes stand: in a rank's arena, in the stretch that it has in common with its team (ranks of one
/// host that share memory), or in a storage.
enum class MemoryKind : std::uint8_t { arena, common, storage };
std::string_view name_of(MemoryKind memory);

/// Where a value stands on a rank. The address is base(memory) + offset + rank_stride * (the rank's
/// coordinate on the data axis): a slice of a unit that is held whole has rank_stride > 0, a unit that is
/// gathered where its slices stand rank_stride < 0.
struct Location {
  MemoryKind memory = MemoryKind::arena;
  ir::StorageId storage;
  std::int64_t offset = 0;       ///< bytes
  std::int64_t bytes = 0;        ///< of this rank's part
  std::int64_t rank_stride = 0;  ///< bytes
};

/// Wait until instruction `sequence` of `lane` is done.
struct Wait {
  Lane lane = Lane::compute;
  std::uint64_t sequence = 0;
  bool operator==(const Wait&) const = default;
};

struct Instruction {
  ir::NodeId node;
  Lane lane = Lane::compute;
  std::uint64_t sequence = 0;  ///< place in its lane, from one
  std::vector<Wait> waits;     ///< on other lanes; a lane is first in, first out by itself
  Location scratch;            ///< bytes == 0: none
};

/// Of bytes that `ranks` have in common, what one of them answers for.
constexpr std::int64_t share_of(std::int64_t bytes, int ranks) {
  return (bytes + ranks - 1) / ranks;
}

/// A stretch of the arena, or of the common stretch, and what it is held for: the memory table's rows.
struct Buffer {
  MemoryKind memory = MemoryKind::arena;
  ir::ValueId value;      ///< the value that the stretch is named after; invalid for scratch
  ir::NodeId scratch_of;  ///< set for scratch
  std::int64_t bytes = 0;
  int shared_by = 1;   ///< ranks: the team's, of what is in common
  bool shown = false;  ///< the others of the team read it: it stands at the arena's beginning
  std::int64_t offset = 0;
  std::int64_t first = 0,
               last = 0;  ///< instruction places (indices into graph.nodes()) during which it is held

  /// Of its bytes, what one rank answers for.
  std::int64_t on_a_rank() const { return share_of(bytes, shared_by); }
};

struct Plan {
  ir::Graph graph;
  std::vector<Instruction> instructions;  ///< in program order; nothing for nodes that only name bytes
  std::vector<Location> locations;        ///< by value
  std::vector<Buffer> buffers;
  std::vector<bool> storage_used;    ///< by storage: whether a node reads or writes it
  std::vector<bool> storage_common;  ///< by storage: the team sees it, its ranks' slices side by side
  int team = 1;                      ///< ranks of a host that share memory
  std::int64_t arena_bytes = 0;      ///< of each rank
  std::int64_t shown_bytes = 0;      ///< of these the first: the others of the team read there
  std::int64_t common_bytes = 0;     ///< of each team: copies of parameters that all its ranks gather
  std::int64_t live_bytes = 0;       ///< the largest sum of live buffers of a rank: no layout can be smaller
  std::uint64_t hash = 0;            ///< equal on all ranks, or the run stops

  /// The planned peak of what is not storage: a rank's arena and its part of what is in common.
  std::int64_t peak_bytes() const { return arena_bytes + share_of(common_bytes, team); }
};

/// Bytes of scratch that the kernel or collective bound to a node needs on a rank.
using ScratchQuery = std::function<std::int64_t(const ir::Graph&, const ir::Node&)>;

enum class MemoryReuse : std::uint8_t {
  on,
  off  ///< every buffer has its own place (schedule.disable = ["memory"])
};

/// Lowers a graph. Throws std::logic_error when a value that must be updated in place cannot be.
Plan lower(ir::Graph graph, const ScratchQuery& scratch, MemoryReuse reuse = MemoryReuse::on);

/// Proves that every two buffers that share bytes, and every read and write of a storage, are ordered across
/// lanes by the plan's waits, and that each input is produced before it is read; of a storage that a team
/// sees, that no rank writes its slice while another may read it. Throws std::logic_error that names the two
/// nodes.
void verify(const Plan& plan);

}  // namespace weft::plan
