// Where the time of a step goes, as the plan says.
#pragma once

#include "base/per_lane.hpp"
#include "machine/cost_model.hpp"
#include "plan/plan.hpp"

namespace weft::compile {

/// Seconds and bytes of a rank and step. Entries of the compute lane are 0.
struct StepParts {
  double step = 0;          ///< with the copying of inputs
  double compute_only = 0;  ///< the plan without collectives
  double compute = 0;       ///< the compute lane was busy
  PerLane<double> under_way{}, exposed{};
  double sent_bytes = 0;
  double wire = 0;  ///< what the links take for sent_bytes at their full rate, the profile's; sums over
                    ///< replicas alone when longer
  double memory_bytes = 0;
};

/// What the plan says: simulated, on the machine of the cost model. Its memory is for the caller to fill in.
StepParts planned_step(const plan::Plan& plan, const machine::CostModel& costs);

}  // namespace weft::compile
