// From a deck to plans: the one way for `weft train`, `weft plan` and `weft sample`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/mesh.hpp"
#include "deck/deck.hpp"
#include "model/llama.hpp"
#include "passes/pipeline.hpp"
#include "plan/plan.hpp"

namespace weft::compile {

/// Whether schedule.disable names the pass.
bool is_disabled(const Deck& deck, std::string_view pass);
/// Whether ranks of one host share memory, where they can.
bool shares_memory(const Deck& deck);
model::Spec spec_of(const Deck& deck);
/// By unit, its bucket as schedule.buckets says. Throws Error(bad_input) on a pattern that matches no unit.
std::vector<int> unit_buckets(const Deck& deck);
/// What the deck says; greedy and auto stand for a collective a unit here.
passes::PipelineOptions pipeline_options(const Deck& deck);

/// Forward and losses of all of a step's rounds: what the training pipeline starts from. Throws
/// Error(bad_input) when sizes do not divide.
ir::Graph training_forward(const Deck& deck, const Mesh& mesh);
/// The whole training step on the mesh. Throws Error(bad_input) when sizes do not divide or a pass cannot be
/// switched off. `options` are those of choose_schedule (scheduling.hpp), or pipeline_options(deck): the
/// deck's without anything automatic. `observer` sees the graph before and after each pass.
plan::Plan training_plan(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                         const passes::PipelineOptions& options, const passes::Observer& observer = {});
/// The last of its parts: the plan of a step that all passes have run over.
plan::Plan lowered(ir::Graph step, const Deck& deck, const plan::ScratchQuery& scratch);
/// Loss totals of one microbatch a rank.
plan::Plan evaluation_plan(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                           const passes::PipelineOptions& options);
/// Logits of one sequence of data.seq tokens.
plan::Plan logits_plan(const Deck& deck, const plan::ScratchQuery& scratch);

}  // namespace weft::compile
