// The kernels of ordered sums (comm/nccl/nccl_sum.cu, comm/nccl/peer_sum.cu) on a stream of the fake device.
#include "comm/nccl/nccl_sum.hpp"

#include <nccl.h>
#include <nccl_device.h>

#include <utility>
#include <vector>

#include "comm/nccl/peer_sum.hpp"
#include "fakecuda/device.hpp"
#include "fakecuda/peers.hpp"

namespace weft::comm::detail {
namespace {

template <class Wire, class Out, class Slices>
void take_all_turns(const DeviceSum& s, std::int64_t packets, const Slices& slices) {
  for (std::int64_t turn = 0; turn < turns_of(s, packets); ++turn)
    take_turn<Wire, Out>(s, packets, turn, slices);
}

}  // namespace

int ordered_sum_on_device(void* stream, const DeviceSum& s) {
  return with_types_of(s, [&](auto wire, auto out) {
    return fakecuda::enqueue_call(static_cast<cudaStream_t>(stream), "the ordered sum", [s] {
      using Wire = decltype(wire);
      take_all_turns<Wire, decltype(out)>(s, packets_of(s), OwnAndPieces<Wire>{s});
    });
  });
}

int peer_sum_on_device(void* stream, const DeviceSum& s, const PeerSlices& slices, int most_blocks) {
  return with_types_of(s, [&](auto wire, auto out) {
    using Wire = decltype(wire);
    const auto add = [s, slices](const std::vector<const std::byte*>& ranks) {
      take_all_turns<Wire, decltype(out)>(s, packets_of_peers(s, slices), [&](int r) {
        return reinterpret_cast<const Wire*>(ranks[static_cast<std::size_t>(r)] + slices.offset);
      });
    };
    std::vector<fakecuda::PeerStep> steps;
    for (int step = 0; step < peer_steps; ++step)
      steps.push_back(peer_step(step) == PeerStep::add ? fakecuda::PeerStep(add) : nullptr);
    const std::size_t slice = static_cast<std::size_t>(s.count) * sizeof(Wire);
    const fakecuda::PeerCall call{slices.offset - static_cast<std::size_t>(s.rank) * slice,
                                  slice * static_cast<std::size_t>(s.size), static_cast<int>(s.wire),
                                  peer_blocks(s.count, most_blocks)};
    return fakecuda::enqueue_peer_kernel(static_cast<cudaStream_t>(stream), "the sum of peers", *slices.comm,
                                         slices.window, call, std::move(steps));
  });
}

}  // namespace weft::comm::detail
