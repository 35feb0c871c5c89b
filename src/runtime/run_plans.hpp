// Makes the plans of a training run, for its step and its validation, and says what they will take.
#pragma once

#include <optional>
#include <string>

#include "compile/planned_step.hpp"
#include "machine/cost_model.hpp"
#include "plan/plan.hpp"
#include "runtime/planned_memory.hpp"
#include "runtime/session.hpp"

namespace weft::runtime {

struct RunPlans {
  plan::Plan train;
  std::optional<plan::Plan> evaluate;
  std::string schedule;  ///< the schedule in words
  PlannedMemory memory;
  bool background = false;  ///< there is room for saves in the background
  compile::StepParts step;  ///< each part is the largest of all ranks, as in the metrics of a step
};

/// Collective: all ranks that have the same stages make the same plans, or an Error tells which rank did not.
/// Throws Error(bad_input) when nothing fits the deck's limits or the host's memory.
RunPlans make_run_plans(const Deck& deck, Session& session, const machine::CostModel& costs,
                        std::int64_t validated);

}  // namespace weft::runtime
