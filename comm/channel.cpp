#include "comm/channel.hpp"

#include <algorithm>
#include <stdexcept>

#include "comm/portions.hpp"

namespace weft::comm {

std::string_view name_of(CallKind kind) {
  switch (kind) {
    case CallKind::all_gather: return "all_gather";
    case CallKind::reduce_scatter: return "reduce_scatter";
    case CallKind::all_reduce: return "all_reduce";
    case CallKind::broadcast: return "broadcast";
    case CallKind::all_to_all: return "all_to_all";
    case CallKind::send: return "send";
    case CallKind::recv: return "recv";
    case CallKind::barrier: return "barrier";
  }
  return "?";
}

void Channel::begin_capture(const Event& /*fork*/) {
  throw std::logic_error("operations of the channel " + name_ + " cannot be captured");
}

std::unique_ptr<CapturedCalls> Channel::end_capture() {
  throw std::logic_error("operations of the channel " + name_ + " are not being captured");
}

std::size_t reduce_scatter_scratch_bytes(int size, std::int64_t count, DType wire, ReduceOrder order,
                                         int near) {
  const std::int64_t slice = count * static_cast<std::int64_t>(size_of(wire));
  const std::int64_t ring = detail::ring_bytes(size, slice, near);
  // With `native`, NCCL reduces in the wire's type into a slice of its own, which is then added onto the
  // output.
  return static_cast<std::size_t>(order == ReduceOrder::native ? std::max(ring, slice) : ring);
}

}  // namespace weft::comm
