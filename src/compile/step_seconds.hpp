// Predicts a step with many accumulation rounds from a plan that has few.
#pragma once

#include <cstdint>

#include "base/per_lane.hpp"
#include "machine/cost_model.hpp"
#include "machine/lanes.hpp"
#include "plan/plan.hpp"

namespace weft::compile {

/// A step's seconds, and by lane how many of them the compute lane, or the step's end, waits for it.
struct StepTimes {
  double seconds = 0;
  PerLane<double> exposed{};
};

/// Simulated times of a step that has `more_rounds` more accumulation rounds than the plan. If there are any,
/// the plan has at least as many as that of with_distinct_rounds(), and each further round takes and waits as
/// long as the middle ones. `times` are those of the plan's simulation.
StepTimes step_times(const plan::Plan& plan, const machine::LaneTimes& times, std::int64_t more_rounds);

/// The seconds of step_times().
double step_seconds(const plan::Plan& plan, const machine::LaneTimes& times, std::int64_t more_rounds);
double step_seconds(const plan::Plan& plan, const machine::CostModel& costs, std::int64_t more_rounds);

}  // namespace weft::compile
