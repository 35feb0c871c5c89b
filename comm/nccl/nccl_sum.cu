// The kernel of the ordered sum on the device.
#include "comm/nccl/nccl_sum.hpp"

namespace weft::comm::detail {
namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1056;  // 8 for each of an H100's 132 multiprocessors

static_assert(threads % 32 == 0 && threads <= 1024, "a block is whole warps, and has no more threads");

template <class Wire, class Out>
__global__ void __launch_bounds__(threads) sum_slices(DeviceSum s, std::int64_t packets) {
  const std::int64_t turns = turns_of(s, packets);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t turn = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; turn < turns;
       turn += stride)
    take_turn<Wire, Out>(s, packets, turn, OwnAndPieces<Wire>{s});
}

template <class Wire, class Out>
int launch(cudaStream_t stream, const DeviceSum& s) {
  const std::int64_t packets = packets_of(s);
  const std::int64_t wanted = (turns_of(s, packets) + threads - 1) / threads;
  const auto blocks = static_cast<unsigned>(wanted < most_blocks ? wanted : most_blocks);
  sum_slices<Wire, Out><<<blocks, threads, 0, stream>>>(s, packets);
  return cudaGetLastError();
}

}  // namespace

int ordered_sum_on_device(void* stream, const DeviceSum& s) {
  return with_types_of(s, [&](auto wire, auto out) {
    return launch<decltype(wire), decltype(out)>(static_cast<cudaStream_t>(stream), s);
  });
}

}  // namespace weft::comm::detail
