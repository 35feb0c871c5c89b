// Runs lanes of tasks against a clock, with durations from the cost model.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/lane.hpp"
#include "machine/cost_model.hpp"

namespace weft::machine {

struct LaneTask {
  double seconds = 0;                             ///< duration when it is alone on the machine
  double bytes = 0;                               ///< bytes that a rank sends in a collective
  std::array<std::uint32_t, lane_count> after{};  ///< how many tasks of each lane must be done first
};
using LaneTasks = std::array<std::vector<LaneTask>, lane_count>;

struct LaneTimes {
  struct Span {
    double start = 0, end = 0;  ///< in seconds
  };
  std::array<std::vector<Span>, lane_count> spans;  ///< by lane, then by task
  double end = 0;
  std::array<double, lane_count> busy{};  ///< by lane: how long a task of it was under way
  /// By lane: how long the compute lane, or the step's end, waited for it. 0 for the compute lane itself.
  std::array<double, lane_count> exposed{};
};

/// Runs the tasks of each lane in their order. A collective is slower while another communication lane has
/// one under way, and kernels are slower while bytes move, as the profile says. The result is deterministic.
/// Throws std::logic_error when tasks wait for each other in a circle. With late_seconds, what a collective
/// brings arrives that much after its end, as where a rank is late; its lane is not held up.
LaneTimes run_lanes(const LaneTasks& tasks, const CostModel& costs, double late_seconds = 0);

}  // namespace weft::machine
