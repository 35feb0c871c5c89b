// The kernel of the ordered sum (comm/nccl/nccl_sum.cu) on a stream of the fake device.
#include "comm/nccl/nccl_sum.hpp"

#include "fakecuda/device.hpp"

namespace weft::comm::detail {

int ordered_sum_on_device(void* stream, const DeviceSum& s) {
  return with_types_of(s, [&](auto wire, auto out) {
    return fakecuda::enqueue_call(static_cast<cudaStream_t>(stream), "the ordered sum", [s] {
      for (std::int64_t i = 0; i < s.count; ++i) sum_element<decltype(wire), decltype(out)>(s, i);
    });
  });
}

}  // namespace weft::comm::detail
