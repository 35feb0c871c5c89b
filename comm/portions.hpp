// How exchanges are cut into messages, and a reduce-scatter's slices into portions, so that its scratch is
// bounded whatever the unit's size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::comm::detail {

/// The size of one message. Open MPI's TCP sends up to 64 KiB, with its own header, without asking the
/// receiver first. For a longer message it asks, and both question and answer stand in line behind the data
/// of their direction: two hosts that exchange 4 MiB messages leave a third of a link idle.
inline constexpr std::int64_t default_chunk_bytes = 63 << 10;
/// How many messages an exchange has under way: at 10 Gbit/s they last 3 ms without a look from this thread.
inline constexpr int messages_in_flight = 64;

/// Bytes of a reduce-scatter's scratch for each peer, if a slice is that long: 64 MiB over all peers, but 16
/// KiB to 16 MiB for each. With less than 16 KiB a message (a quarter of it) costs more than its bytes; from
/// 4,097 peers on the sum is therefore more than 64 MiB, and 256 MiB for 16,384 ranks.
inline std::int64_t ring_peer_bytes(int size) {
  constexpr std::int64_t kib = 1024;
  const std::int64_t fair = 64 * kib * kib / std::max(1, size - 1);
  return std::clamp(fair, 16 * kib, 16 * kib * kib) / 32 * 32;
}

/// Bytes of scratch for an exchange of `slice_bytes` with each peer: all of `size` ranks but `near` of them.
inline std::int64_t ring_bytes(int size, std::int64_t slice_bytes, int near = 1) {
  return (size - near) * std::min(slice_bytes, ring_peer_bytes(size));
}

/// Bytes that one rank sends to one peer in one portion; a multiple of 8. At least four portions fit into the
/// scratch.
inline std::int64_t ring_piece_bytes(int size, std::int64_t chunk_bytes) {
  return std::min(ring_peer_bytes(size) / 4, chunk_bytes);
}

}  // namespace weft::comm::detail
