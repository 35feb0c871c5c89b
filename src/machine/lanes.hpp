// Runs lanes of tasks against a clock, with durations from the cost model.
#pragma once

#include <cstdint>
#include <vector>

#include "base/per_lane.hpp"
#include "machine/cost_model.hpp"

namespace weft::machine {

struct LaneTask {
  double seconds = 0;              ///< duration when it is alone on the machine
  double bytes = 0;                ///< bytes that a rank sends in a collective
  Link link = Link::near;          ///< that they go by
  PerLane<std::uint32_t> after{};  ///< how many tasks of each lane must be done first
};
using LaneTasks = PerLane<std::vector<LaneTask>>;

struct LaneTimes {
  struct Span {
    double start = 0, end = 0;  ///< in seconds
  };
  PerLane<std::vector<Span>> spans;  ///< by lane, then by task
  double end = 0;
  PerLane<double> busy{};  ///< how long a task of the lane was under way
  /// How long the compute lane, or the step's end, waited for the lane. 0 for the compute lane itself.
  PerLane<double> exposed{};
};

/// Runs the tasks of each lane in their order. A collective is slower while other communication lanes have
/// some under way on its link, and kernels are slower while bytes move, as the profile says. The result is
/// deterministic. Throws std::logic_error when tasks wait for each other in a circle. With late_seconds, what
/// a collective brings arrives that much after its end, as where a rank is late; its lane is not held up.
LaneTimes run_lanes(const LaneTasks& tasks, const CostModel& costs, double late_seconds = 0);

}  // namespace weft::machine
