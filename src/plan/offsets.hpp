// Gives buffers with known lifetimes their offsets in one arena.
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

/// Sets each buffer's offset. Buffers held at the same time do not overlap, and those that the team reads
/// (Buffer::shown) stand at the beginning. Returns the arena's size. It tries sweeps in program order, then
/// the largest buffers first; it stops at half a percent above live_peak(), and keeps the smallest arena. The
/// result depends on the arguments alone, so it is the same on all ranks and machines.
std::int64_t assign_offsets(std::vector<Buffer>& buffers, MemoryReuse reuse);

/// Bytes held at each of `places` instruction places.
std::vector<std::int64_t> live_by_place(const std::vector<Buffer>& buffers, std::size_t places);
/// The largest sum of the buffers held at one place: a lower bound of every arena.
std::int64_t live_peak(const std::vector<Buffer>& buffers);
/// The first place where live_peak() is reached.
std::int64_t live_peak_place(const std::vector<Buffer>& buffers);

}  // namespace weft::plan
