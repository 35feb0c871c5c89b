// The kernel that adds up slices where they stand in the memory of their ranks.
#include "comm/nccl/peer_sum.hpp"

#include <nccl.h>

#if NCCL_VERSION_CODE >= 22800
#include <nccl_device.h>

namespace weft::comm::detail {
namespace {

static_assert(peer_threads % 32 == 0 && peer_threads <= 1024,
              "a block is whole warps, and has no more threads");

template <class Wire>
struct InTheWindow {
  const Wire* const* slices;  ///< of the ranks, in a block's shared memory
  __device__ const Wire* operator()(int r) const {
    const Wire* slice = slices[r];
    __builtin_assume(__isGlobal(slice));
    return slice;
  }
};

/// A meeting releases what this rank has written and read before it, and acquires what the others have. How
/// often blocks have met stands in the memory of `comm` on the device, where the kernel finds it at its
/// beginning and leaves it at its end: so a launch from a CUDA graph goes on where the launch before it
/// ended. All ranks read rank 0 first; they spread over the ranks after a few packets, because who waits
/// longer comes later to the next rank.
template <class Wire, class Out>
__global__ void __launch_bounds__(peer_threads, 1)
    sum_peers(DeviceSum s, const __grid_constant__ ncclDevComm comm, ncclWindow_t window, std::size_t offset,
              std::int64_t packets) {
  __shared__ const Wire* slices[most_peers];
  for (int r = threadIdx.x; r < s.size; r += peer_threads)  // they are seen behind the first meeting
    slices[r] = static_cast<const Wire*>(ncclGetLsaPointer(window, offset, r));
  ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x);
  const std::int64_t turns = turns_of(s, packets);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (int step = 0; step < peer_steps; ++step) {
    if (peer_step(step) == PeerStep::meet) {
      barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
      continue;
    }
    for (std::int64_t turn = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; turn < turns;
         turn += stride)
      take_turn<Wire, Out>(s, packets, turn, InTheWindow<Wire>{slices});
  }
}

template <class Wire, class Out>
int launch(cudaStream_t stream, const DeviceSum& s, const PeerSlices& slices, int most_blocks) {
  sum_peers<Wire, Out><<<peer_blocks(s.count, most_blocks), peer_threads, 0, stream>>>(
      s, *slices.comm, slices.window, slices.offset, packets_of_peers(s, slices));
  return cudaGetLastError();
}

}  // namespace

int peer_sum_on_device(void* stream, const DeviceSum& s, const PeerSlices& slices, int most_blocks) {
  return with_types_of(s, [&](auto wire, auto out) {
    return launch<decltype(wire), decltype(out)>(static_cast<cudaStream_t>(stream), s, slices, most_blocks);
  });
}

}  // namespace weft::comm::detail
#else
namespace weft::comm::detail {

int peer_sum_on_device(void*, const DeviceSum&, const PeerSlices&, int) {
  return cudaErrorNotSupported;  // nobody asks: PeerMemory shows nothing
}

}  // namespace weft::comm::detail
#endif
