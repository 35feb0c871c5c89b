// From a deck to plans: the one way for `weft train`, `weft plan` and `weft sample`.
#pragma once

#include <cstdint>

#include "base/mesh.hpp"
#include "deck/deck.hpp"
#include "model/llama.hpp"
#include "passes/pipeline.hpp"
#include "plan/plan.hpp"

namespace weft::train {

model::Spec spec_of(const Deck& deck);
passes::PipelineOptions pipeline_options(const Deck& deck);

/// The whole training step on the mesh. Throws Error(bad_input) when sizes do not divide or a pass cannot be
/// switched off. `observer` sees the graph before and after each pass.
plan::Plan training_plan(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                         const passes::Observer& observer = {});
/// Loss totals of one microbatch a rank.
plan::Plan evaluation_plan(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch);
/// Logits of one sequence of data.seq tokens.
plan::Plan logits_plan(const Deck& deck, const plan::ScratchQuery& scratch);

}  // namespace weft::train
