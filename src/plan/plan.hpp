// A plan: the graph lowered to a flat list of instructions, with an address for every value and the waits
// that order lanes. It depends on the graph and the scratch sizes alone, and not on the rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace weft::plan {

/// Where bytes stand: in a rank's arena, in the common stretch of its team (the ranks of one host that share
/// memory), or in a storage.
enum class MemoryKind : std::uint8_t { arena, common, storage };
std::string_view name_of(MemoryKind memory);

/// Where a value stands on a rank. The address is base(memory) + offset + rank_stride * (the rank's
/// coordinate on the data axis). A slice of a unit that is held whole has rank_stride > 0; a unit that is
/// gathered where its slices stand has rank_stride < 0.
struct Location {
  MemoryKind memory = MemoryKind::arena;
  ir::StorageId storage;
  std::int64_t offset = 0;       ///< bytes from the beginning of that memory
  std::int64_t bytes = 0;        ///< bytes of this rank's part
  std::int64_t rank_stride = 0;  ///< bytes from one rank's place to the next one's
};

/// A wait: the instruction that has it begins when instruction `sequence` of `lane` is done.
struct Wait {
  Lane lane = Lane::compute;
  std::uint64_t sequence = 0;
  bool operator==(const Wait&) const = default;
};

struct Instruction {
  ir::NodeId node;
  Lane lane = Lane::compute;
  std::uint64_t sequence = 0;  ///< place in its lane, from one
  std::vector<Wait> waits;  ///< for other lanes; on its own lane an instruction always follows the one before
  Location scratch;         ///< no scratch when bytes == 0
};

/// One rank's share of bytes that `ranks` have in common.
constexpr std::int64_t share_of(std::int64_t bytes, int ranks) {
  return (bytes + ranks - 1) / ranks;
}

/// A stretch of the arena, or of the common stretch, and the time for which it is held; a row of the memory
/// table.
struct Buffer {
  MemoryKind memory = MemoryKind::arena;
  ir::ValueId value;      ///< the value that the buffer is named after; invalid for scratch
  ir::NodeId scratch_of;  ///< the node whose scratch this is; invalid for a value
  std::int64_t bytes = 0;
  int shared_by = 1;   ///< how many ranks have it in common: the team's, or 1
  bool shown = false;  ///< the other ranks of the team read it, so it stands at the arena's beginning
  std::int64_t offset = 0;
  std::int64_t first = 0,
               last = 0;  ///< instruction places (indices into graph.nodes()) during which it is held

  /// The bytes that one rank answers for.
  std::int64_t on_a_rank() const { return share_of(bytes, shared_by); }
};

struct Plan {
  ir::Graph graph;
  std::vector<Instruction> instructions;  ///< in program order; nodes that only name bytes have none
  std::vector<Location> locations;        ///< by value
  std::vector<Buffer> buffers;
  std::vector<bool> storage_used;  ///< by storage: whether a node reads or writes it
  /// By storage: whether the team sees it, with its ranks' slices side by side.
  std::vector<bool> storage_common;
  int team = 1;                   ///< ranks of a host that have gathered parameters in common
  std::int64_t arena_bytes = 0;   ///< bytes of each rank's arena
  std::int64_t shown_bytes = 0;   ///< the first of these, in which other ranks of the host read
  std::int64_t common_bytes = 0;  ///< for each team: copies of parameters that all its ranks gather
  std::int64_t live_bytes = 0;    ///< the largest sum of live buffers of a rank: no layout can be smaller
  std::uint64_t hash = 0;         ///< what ranks compare; hash_of() in lower.cpp says what it covers

  /// The planned peak of all memory but storages: a rank's arena, and its share of what is in common.
  std::int64_t peak_bytes() const { return arena_bytes + share_of(common_bytes, team); }
  /// Whether ranks of a host see memory of each other.
  bool shares_memory() const { return team > 1 || shown_bytes > 0; }
};

/// Bytes of scratch that the kernel or collective bound to a node needs on a rank.
using ScratchQuery = std::function<std::int64_t(const ir::Graph&, const ir::Node&)>;

enum class MemoryReuse : std::uint8_t {
  on,
  off  ///< every buffer has its own place (schedule.disable = ["memory"])
};

/// Lowers a graph. Throws std::logic_error when a value that must be updated in place cannot be.
Plan lower(ir::Graph graph, const ScratchQuery& scratch, MemoryReuse reuse = MemoryReuse::on);

/// Proves that the plan's waits order all accesses across lanes: of every two buffers that share bytes, and
/// every read and write of a storage. Proves, too, that each input is produced before it is read, and that no
/// rank writes its slice of a storage that the team sees while another may read it. Throws std::logic_error
/// that names the two nodes.
void verify(const Plan& plan);

}  // namespace weft::plan
