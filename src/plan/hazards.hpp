// Finds, from the bytes that each instruction reads and writes, which instructions of other lanes it must
// wait for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "base/per_lane.hpp"
#include "plan/plan.hpp"

namespace weft::plan {

/// The instruction of each lane, by its sequence number, up to which the lane must be done; 0: no wait.
using Clock = PerLane<std::uint64_t>;

/// Raises `clock` to the later of the two, lane by lane.
inline void raise(Clock& clock, const Clock& other) {
  for (const Lane lane : all_lanes) clock[lane] = std::max(clock[lane], other[lane]);
}

enum class Access : std::uint8_t { read, write };

/// One address space (the arena, or one storage), in bytes.
class AddressSpace {
 public:
  /// Records that instruction `sequence` of `lane` accesses [begin, end), and raises `waits` to what has to
  /// be done before: earlier writes, and for a write earlier reads, too.
  void access(std::int64_t begin, std::int64_t end, Lane lane, std::uint64_t sequence, Access kind,
              Clock& waits);

 private:
  struct Stretch {
    std::int64_t end = 0;
    Clock written{}, read{};
  };
  std::map<std::int64_t, Stretch>::iterator split(std::int64_t at);

  std::map<std::int64_t, Stretch> stretches_;  ///< stretches, by their first byte
};

/// Drops waits that follow from others: from what a lane has seen done, and from what that had waited for
/// itself.
class WaitReducer {
 public:
  std::vector<Wait> reduce(Lane lane, std::uint64_t sequence, const Clock& waits);

 private:
  /// By lane and sequence: how far each lane is done once that instruction is done.
  PerLane<std::vector<Clock>> seen_;
};

}  // namespace weft::plan
