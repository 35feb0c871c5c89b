// Decides which values share a buffer, and from when to when each buffer is held.
#pragma once

#include <vector>

#include "base/ids.hpp"
#include "plan/plan.hpp"

namespace weft::plan {

using BufferId = Id<struct BufferTag>;

struct BufferTable {
  std::vector<Buffer> buffers;
  std::vector<BufferId> buffer_of;        ///< by value; invalid: it stands in a storage, or is unused
  std::vector<ir::StorageId> storage_of;  ///< by value: where it stands if in no buffer
  std::vector<std::int64_t> offset_in;    ///< by value: bytes from its buffer's (or storage's) start
  std::vector<std::int64_t> rank_stride;  ///< by value, see Location
  std::vector<BufferId> scratch_of;       ///< by node; invalid: it needs none

  const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }
  Buffer& buffer(BufferId id) { return buffers[id.index()]; }
};

/// Makes the buffers. Views stand inside their unit, and a join's parts inside the join; an elementwise
/// result takes its operand's place when that is not needed any more. What a collective reads is held for as
/// many nodes more as its attribute `hold` says, so that the compute lane does not wait for the wire.
BufferTable assign_buffers(const ir::Graph& graph, const ScratchQuery& scratch);

}  // namespace weft::plan
