// Decides which values share a buffer, and from when to when each buffer is held.
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

struct BufferTable {
  std::vector<Buffer> buffers;
  std::vector<int> buffer_of;  ///< by value: index into buffers, or -1 (stands in a storage, or unused)
  std::vector<ir::StorageId> storage_of;  ///< by value: where it stands if in no buffer
  std::vector<std::int64_t> offset_in;    ///< by value: bytes from its buffer's (or storage's) start
  std::vector<std::int64_t> rank_stride;  ///< by value, see Location
  std::vector<int> scratch_of;            ///< by node: index into buffers, or -1
};

/// Makes the buffers. Views stand inside their unit, and a join's parts inside the join; an elementwise
/// result takes its operand's place when that is not needed any more. What a collective reads is held for as
/// many nodes more as its attribute `hold` says, so that the compute lane does not wait for the wire.
BufferTable assign_buffers(const ir::Graph& graph, const ScratchQuery& scratch);

}  // namespace weft::plan
