#include "comm/channel.hpp"

#include <algorithm>
#include <stdexcept>

#include "comm/rounds.hpp"

namespace weft::comm {

std::string_view name_of(Op op) {
  switch (op) {
    case Op::all_gather: return "all_gather";
    case Op::reduce_scatter: return "reduce_scatter";
    case Op::all_reduce: return "all_reduce";
    case Op::broadcast: return "broadcast";
    case Op::all_to_all: return "all_to_all";
    case Op::send: return "send";
    case Op::recv: return "recv";
    case Op::barrier: return "barrier";
  }
  return "?";
}

void Channel::begin_capture(const Event& /*fork*/) {
  throw std::logic_error("operations of the channel " + name_ + " cannot be captured");
}

std::unique_ptr<CapturedOperations> Channel::end_capture() {
  throw std::logic_error("operations of the channel " + name_ + " are not being captured");
}

std::size_t reduce_scatter_scratch_bytes(int size, std::int64_t count, DType wire, ReduceOrder order,
                                         int near) {
  const std::int64_t slice = count * static_cast<std::int64_t>(size_of(wire));
  const std::int64_t ring = detail::ring_bytes(size, slice, near);
  // with native, NCCL reduces in the wire's type into a slice of its own, which is then added onto the output
  return static_cast<std::size_t>(order == ReduceOrder::native ? std::max(ring, slice) : ring);
}

}  // namespace weft::comm
