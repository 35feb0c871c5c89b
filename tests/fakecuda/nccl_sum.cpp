// The kernel of the ordered sum (comm/nccl/nccl_sum.cu) on a stream of the fake device.
#include "comm/nccl/nccl_sum.hpp"

#include "fakecuda/device.hpp"

namespace weft::comm::detail {
namespace {

template <class Wire, class Out>
int launch(void* stream, const DeviceSum& s) {
  return fakecuda::enqueue_call(static_cast<cudaStream_t>(stream), "the ordered sum", [s] {
    for (std::int64_t i = 0; i < s.count; ++i) sum_element<Wire, Out>(s, i);
  });
}

}  // namespace

int ordered_sum_on_device(void* stream, const DeviceSum& s) {
  if (s.count == 0) return cudaSuccess;
  if (s.wire == DType::f32 && s.out_type == DType::f32) return launch<float, float>(stream, s);
  if (s.wire == DType::bf16 && s.out_type == DType::f32) return launch<bf16, float>(stream, s);
  if (s.wire == DType::f32 && s.out_type == DType::bf16) return launch<float, bf16>(stream, s);
  return launch<bf16, bf16>(stream, s);
}

}  // namespace weft::comm::detail
