// The kernel of the ordered sum (comm/nccl/nccl_sum.cu) on a stream of the fake device.
#include "comm/nccl/nccl_sum.hpp"

#include "fakecuda/device.hpp"

namespace weft::comm::detail {

int ordered_sum_on_device(void* stream, const DeviceSum& s) {
  return with_types_of(s, [&](auto wire, auto out) {
    return fakecuda::enqueue_call(static_cast<cudaStream_t>(stream), "the ordered sum", [s] {
      const std::int64_t packets = packets_of(s);
      for (std::int64_t turn = 0; turn < turns_of(s, packets); ++turn)
        take_turn<decltype(wire), decltype(out)>(s, packets, turn);
    });
  });
}

}  // namespace weft::comm::detail
