// Sums the slices of a reduce-scatter in rank order where they stand: in the memory of their ranks, which a
// kernel reads over NVLink.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "comm/nccl/nccl_sum.hpp"

struct ncclDevComm;
struct ncclWindow_vidmem;

namespace weft::comm::detail {

/// Where the slices stand: that of rank r begins `offset` bytes behind the beginning of rank r's part of the
/// window.
struct PeerSlices {
  const ncclDevComm* comm = nullptr;  ///< of the window's communicator, in memory of the host; it is copied
  ncclWindow_vidmem* window = nullptr;
  std::size_t offset = 0;
};

/// What a block of the kernel does, in this order. At a meeting it waits for the blocks with its number on
/// all ranks. Behind the first one all ranks have written what is read here; before the second one nobody
/// goes on who could overwrite what another rank still reads. The fake of the kernel goes by the same steps.
enum class PeerStep : std::uint8_t { meet, add };
inline constexpr int peer_steps = 3;
WEFT_FUNCTION constexpr PeerStep peer_step(int number) {
  return number == 1 ? PeerStep::add : PeerStep::meet;
}

inline constexpr int peer_threads = 512;
inline constexpr int most_peers = 256;  ///< ranks of a sum

/// How many blocks the kernel has. All ranks must have the same number, so it depends on nothing in which
/// they may differ, as the alignment of `out`.
inline int peer_blocks(std::int64_t count, int most_blocks) {
  const std::int64_t packets = (count + sum_packet - 1) / sum_packet;
  const std::int64_t wanted = (packets + peer_threads - 1) / peer_threads;
  return static_cast<int>(std::min<std::int64_t>(wanted, most_blocks));
}

/// How many packets the sum has (packets_of). Windows begin at multiples of a page on all ranks.
inline std::int64_t packets_of_peers(const DeviceSum& s, const PeerSlices& slices) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(s.out) % 16 == 0 && slices.offset % 16 == 0;
  return aligned ? s.count / sum_packet : 0;
}

/// Enqueues the sum on `stream` (cudaStream_t), where all ranks of the communicator do; returns the launch's
/// cudaError_t. Of `sum`, `own` and `pieces` are not used. The device communicator has `most_blocks`
/// barriers, and no other call with it runs at the same time.
int peer_sum_on_device(void* stream, const DeviceSum& sum, const PeerSlices& slices, int most_blocks);

}  // namespace weft::comm::detail
