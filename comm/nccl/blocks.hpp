// Shares the multiprocessors of a device among the communicators that are open at once.
#pragma once

#include <algorithm>
#include <span>

#include "base/per_lane.hpp"

namespace weft::comm {

/// Whether a lane moves little, or with one neighbour, which few blocks are enough for: sums of a pipe, those
/// of neighbours with the same heads, and the messages between stages.
constexpr bool needs_few_blocks(Lane lane) {
  return lane == Lane::pipe || lane == Lane::copies || is_between_stages(lane);
}

/// The most blocks that any kernel of a communicator has.
inline constexpr int blocks_of_a_lane = 32;

/// The most blocks that a kernel of this lane's communicator may have. `open` are the lanes of all
/// communicators of a rank, this one among them. A block of NCCL fills a multiprocessor and stays there until
/// all others of its collective have run, so the blocks of all lanes must fit on the device together: then
/// none waits for a place that another lane's kernel holds. A tenth of the device, at least one
/// multiprocessor, is left to compute. Lanes have the same number, at most blocks_of_a_lane, but those that
/// need few a quarter of it. The number is a power of two, because NCCL rounds up to one where it sends and
/// receives. Where there are more lanes than multiprocessors are left for them, each lane has one block.
inline int most_blocks(Lane lane, std::span<const Lane> open, int multiprocessors) {
  const auto blocks_of = [](Lane one, int share) {
    return needs_few_blocks(one) ? std::max(1, share / 4) : share;
  };
  const int room = multiprocessors - std::max(1, multiprocessors / 10);
  int share = blocks_of_a_lane;
  for (; share > 1; share /= 2) {
    int sum = 0;
    for (const Lane one : open) sum += blocks_of(one, share);
    if (sum <= room) break;
  }
  return blocks_of(lane, share);
}

}  // namespace weft::comm
