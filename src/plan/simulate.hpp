// Estimates what a plan takes on a machine: its instructions run on their lanes, with the plan's waits. Plans
// are compared by these numbers, and a run's summary shows them beside its own.
#pragma once

#include <string>

#include "machine/lanes.hpp"
#include "plan/plan.hpp"

namespace weft::plan {

/// Runs the plan against a clock. The tasks of a lane are the plan's instructions, by sequence. Where the
/// host computes, it also submits the collectives: none starts before the kernels that stand before it in the
/// program are done.
machine::LaneTimes simulate(const Plan& plan, const machine::CostModel& costs);

/// Describes the step with its lanes overlapped, and how much of them is not hidden, in lines for a report.
std::string timeline_text(const machine::LaneTimes& times);

}  // namespace weft::plan
