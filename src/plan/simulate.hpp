// What a plan will take on a machine: its instructions on its lanes, with the plan's waits. The numbers
// that plans are compared by, and that a run's summary shows beside its own.
#pragma once

#include <string>

#include "machine/lanes.hpp"
#include "plan/plan.hpp"

namespace weft::plan {

/// Lane tasks are the plan's instructions, by lane and sequence. Where the host computes it also submits the
/// collectives: none starts before the kernels that stand before it in the program are done.
machine::LaneTimes simulate(const Plan& plan, const machine::CostModel& costs);

/// The step with its lanes overlapped, and what of them is not hidden: lines for a report.
std::string timeline_text(const machine::LaneTimes& times);

}  // namespace weft::plan
