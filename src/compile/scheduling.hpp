// Chooses the schedule where the deck leaves it open: from a deck, a mesh and a machine to the passes'
// options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/mesh.hpp"
#include "deck/deck.hpp"
#include "machine/cost_model.hpp"
#include "passes/pass_list.hpp"
#include "plan/plan.hpp"

namespace weft::compile {

struct Chosen {
  passes::PassOptions options;
  std::optional<plan::Plan> plan;  ///< the plan of these options, where choosing has made it
};

/// The deck with as few accumulation rounds as stand for any number of them: the first, two that are like all
/// others but the last, and the last; in a pipe with the schedules 1f1b and zb_h1 eight more than it has
/// ranks, with zbv eight more than it has stages, or a few more than that. A plan of it takes as much memory,
/// but for tokens and losses. It is the deck itself where its rounds are no more, or each of them takes
/// memory of its own. `given` are the deck's pass_options().
Deck with_distinct_rounds(const Deck& deck, const Mesh& mesh, const passes::PassOptions& given);

/// The bytes of state and arena that a plan may take; 0: any number. They are schedule.memory_limit, and
/// run.memory_limit less `baseline` bytes for what is in neither; without both, the machine's memory.
double memory_limit(const Deck& deck, const machine::CostModel& costs, std::int64_t baseline);

/// Chooses the options of the rank at `pipe_rank` of the mesh's pipe. The result depends on the arguments
/// alone, so all ranks choose alike. Plans are compared by a step of with_distinct_rounds(). With automatic
/// bucketing the result is the shortest simulated step among the search's, the greedy and the manual plan.
/// Only plans count whose state and arena are within schedule.memory_limit, and within run.memory_limit less
/// `baseline` bytes (without either: within the machine's memory). Throws Error(bad_input) when no plan is
/// within schedule.memory_limit (for a deck that leaves nothing open, this is the only limit), or when
/// recompute = budget finds none within either.
Chosen choose_schedule(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                       const machine::CostModel& costs, std::int64_t baseline, int pipe_rank = 0);

/// The plan of with_distinct_rounds() with the schedule that choose_schedule() chooses for the whole deck,
/// unless it chooses another because the tokens of all rounds no longer fit.
plan::Plan plan_of_distinct_rounds(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                                   const machine::CostModel& costs, std::int64_t baseline, int pipe_rank);

/// The plan of what choose_schedule() chose with the same arguments: moved from `chosen` where choosing has
/// made it. `observer` sees the passes only where they still have to run.
plan::Plan take_plan(Chosen& chosen, const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                     const passes::Observer& observer = {});

/// The schedule of a plan that was made with these options, in one line: how many collectives a round has,
/// distances, what is kept, and what is computed again.
std::string schedule_text(const passes::PassOptions& options, const plan::Plan& plan);

}  // namespace weft::compile
