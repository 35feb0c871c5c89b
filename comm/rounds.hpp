// How a reduce-scatter's slices are cut into rounds, so that its scratch is bounded whatever the unit's size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::comm::detail {

inline constexpr std::int64_t default_chunk_bytes = 4 << 20;
/// Rounds whose receives may be in flight or waiting for the sum.
inline constexpr int rounds_in_flight = 4;
inline constexpr std::int64_t scratch_target_bytes = 64 << 20;
inline constexpr std::int64_t smallest_piece_bytes = 64 << 10;

/// Bytes that one rank sends to one peer in one round; a multiple of 8 and at most `chunk_bytes`.
inline std::int64_t reduce_piece_bytes(int size, std::int64_t chunk_bytes) {
  const std::int64_t fair = scratch_target_bytes / (rounds_in_flight * std::max(1, size - 1));
  const std::int64_t piece = std::min(std::max(fair, smallest_piece_bytes), chunk_bytes);
  return std::max<std::int64_t>(8, piece / 8 * 8);
}

/// Scratch bytes of an exchange of `slice_bytes` a peer.
inline std::int64_t ring_bytes(int size, std::int64_t slice_bytes, std::int64_t piece_bytes) {
  return (size - 1) * std::min(slice_bytes, rounds_in_flight * piece_bytes);
}

}  // namespace weft::comm::detail
