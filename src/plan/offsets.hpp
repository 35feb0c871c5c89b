// Offsets in one arena for buffers with known lifetimes.
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

/// Sets each buffer's offset so that buffers held at the same time do not overlap, and those that the team
/// reads (Buffer::shown) stand at the beginning; returns the arena's size. Tries sweeps in program order,
/// then the largest buffers first; stops at half a percent above live_peak(), and keeps the smallest arena. A
/// pure function: the same on all ranks and machines.
std::int64_t assign_offsets(std::vector<Buffer>& buffers, MemoryReuse reuse);

/// Bytes held at each of `places` instruction places.
std::vector<std::int64_t> live_by_place(const std::vector<Buffer>& buffers, std::size_t places);
/// The largest sum of the buffers held at one place: a lower bound of every arena.
std::int64_t live_peak(const std::vector<Buffer>& buffers);
/// The place where that sum is reached first.
std::int64_t live_peak_place(const std::vector<Buffer>& buffers);

}  // namespace weft::plan
