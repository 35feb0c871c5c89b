// Lanes of tasks against a clock that the cost model moves.
#pragma once

#include <cstdint>
#include <vector>

#include "base/per_lane.hpp"
#include "machine/cost_model.hpp"

namespace weft::machine {

struct LaneTask {
  double seconds = 0;              ///< alone on the machine
  double bytes = 0;                ///< of a collective: what a rank sends
  PerLane<std::uint32_t> after{};  ///< how many of the lane's tasks must be done first
};
using LaneTasks = PerLane<std::vector<LaneTask>>;

struct LaneTimes {
  struct Span {
    double start = 0, end = 0;  ///< seconds
  };
  PerLane<std::vector<Span>> spans;  ///< by task
  double end = 0;
  PerLane<double> busy{};  ///< a task of the lane was under way
  /// The compute lane waited for this one, or the end did. 0 for the compute lane itself.
  PerLane<double> exposed{};
};

/// Lanes are first in, first out. A collective slows down while another communication lane has one under
/// way, and kernels while bytes move, as the profile says. Deterministic. Throws std::logic_error when tasks
/// wait in a circle. late_seconds: what a collective brought is there so much after its end (its lane is not
/// held up), as where a rank is late.
LaneTimes run_lanes(const LaneTasks& tasks, const CostModel& costs, double late_seconds = 0);

}  // namespace weft::machine
