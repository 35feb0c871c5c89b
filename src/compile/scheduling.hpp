// From a deck, a mesh and a machine to the passes' options: where the deck leaves the schedule open, it is
// chosen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/mesh.hpp"
#include "deck/deck.hpp"
#include "machine/cost_model.hpp"
#include "passes/pipeline.hpp"
#include "plan/plan.hpp"

namespace weft::compile {

struct Chosen {
  passes::PipelineOptions options;
  std::optional<plan::Plan> plan;  ///< of the options, where choosing has made it
};

/// A pure function, so that all ranks choose alike. Of many rounds of accumulation the middle ones are alike,
/// so a step of four is what plans are compared by. Of automatic bucketing the result is the shortest
/// simulated step among the search's, the greedy and the manual plan, of those whose state and arena are
/// within schedule.memory_limit, and within run.memory_limit less `baseline` bytes (without either: within
/// the machine's memory). Throws Error(bad_input) when none is within schedule.memory_limit (of a deck that
/// leaves nothing open, the only one), or none that recompute = budget tries within either.
Chosen choose_schedule(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                       const machine::CostModel& costs, std::int64_t baseline);

/// Simulated seconds of a step with so many rounds of accumulation more than the plan: if any, the plan has
/// four rounds, and each other takes as long as its middle ones.
double step_seconds(const plan::Plan& plan, const machine::CostModel& costs, std::int64_t more_rounds);

/// One line: buckets, distances, what is kept and what is computed again.
std::string schedule_text(const passes::PipelineOptions& options);

}  // namespace weft::compile
