// Says where the time of a step goes, by the plan.
#pragma once

#include "base/per_lane.hpp"
#include "machine/cost_model.hpp"
#include "plan/plan.hpp"

namespace weft::compile {

/// Seconds and bytes of one rank in one step. Entries for the compute lane are 0.
struct StepParts {
  double step = 0;          ///< the whole step, with the copying of inputs
  double compute_only = 0;  ///< the step without its collectives
  double compute = 0;       ///< how long the compute lane was busy
  PerLane<double> under_way{}, exposed{};
  double sent_bytes = 0;
  /// What the links need for sent_bytes at the profile's full rate, or for the sums over replicas alone when
  /// that is longer.
  double wire = 0;
  double memory_bytes = 0;
};

/// Simulates the plan on the machine of the cost model. The caller fills in the memory.
StepParts planned_step(const plan::Plan& plan, const machine::CostModel& costs);

}  // namespace weft::compile
