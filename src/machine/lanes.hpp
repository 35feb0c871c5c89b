// Lanes of tasks against a clock that the cost model moves.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/lane.hpp"
#include "machine/cost_model.hpp"

namespace weft::machine {

struct LaneTask {
  double seconds = 0;                             ///< alone on the machine
  double bytes = 0;                               ///< of a collective: what a rank sends
  std::array<std::uint32_t, lane_count> after{};  ///< by lane: how many of its tasks must be done first
};
using LaneTasks = std::array<std::vector<LaneTask>, lane_count>;

struct LaneTimes {
  struct Span {
    double start = 0, end = 0;  ///< seconds
  };
  std::array<std::vector<Span>, lane_count> spans;  ///< by lane and task
  double end = 0;
  std::array<double, lane_count> busy{};  ///< a task of the lane was under way
  /// By lane: the compute lane waited for it, or the end did. 0 for the compute lane itself.
  std::array<double, lane_count> exposed{};
};

/// Lanes are first in, first out. A collective slows down while another communication lane has one under
/// way, and kernels while bytes move, as the profile says. Deterministic. Throws std::logic_error when tasks
/// wait in a circle. late_seconds: what a collective brought is there so much after its end (its lane is not
/// held up), as where a rank is late.
LaneTimes run_lanes(const LaneTasks& tasks, const CostModel& costs, double late_seconds = 0);

}  // namespace weft::machine
