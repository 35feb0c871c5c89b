// The kernel of the ordered sum on the device.
#include "comm/nccl/nccl_sum.hpp"

namespace weft::comm::detail {
namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1056;  // 8 for each of an H100's 132 multiprocessors

template <class Wire, class Out>
__global__ void sum_slices(DeviceSum s) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < s.count;
       i += stride)
    sum_element<Wire, Out>(s, i);
}

template <class Wire, class Out>
int launch(cudaStream_t stream, const DeviceSum& s) {
  const std::int64_t wanted = (s.count + threads - 1) / threads;
  const auto blocks = static_cast<unsigned>(wanted < most_blocks ? wanted : most_blocks);
  sum_slices<Wire, Out><<<blocks, threads, 0, stream>>>(s);
  return cudaGetLastError();
}

}  // namespace

int ordered_sum_on_device(void* stream, const DeviceSum& s) {
  return with_types_of(s, [&](auto wire, auto out) {
    return launch<decltype(wire), decltype(out)>(static_cast<cudaStream_t>(stream), s);
  });
}

}  // namespace weft::comm::detail
