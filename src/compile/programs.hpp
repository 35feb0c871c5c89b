// Makes plans from a deck, in the one way that `weft train`, `weft plan` and `weft sample` share.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/mesh.hpp"
#include "deck/deck.hpp"
#include "model/llama.hpp"
#include "passes/pass_list.hpp"
#include "plan/plan.hpp"

namespace weft::compile {

/// Whether schedule.disable names the pass.
bool is_disabled(const Deck& deck, std::string_view pass);
/// Whether ranks of one host share memory, where that is possible.
bool shares_memory(const Deck& deck);
model::Spec spec_of(const Deck& deck);
/// The bucket of each unit that the stages have (none: of the whole model), as schedule.buckets says; of
/// those that the pass partition makes of them, where it runs. Throws Error(bad_input) on a pattern that
/// matches no unit of the model.
std::vector<int> unit_buckets(const Deck& deck, const std::optional<passes::StageOptions>& stage = {},
                              int tensor_ranks = 1);
/// The passes' options that the deck gives to the rank at this place of the mesh's pipe. For the bucketings
/// greedy and auto, each unit has its own collectives here.
passes::PassOptions pass_options(const Deck& deck, const Mesh& mesh, int pipe_rank = 0);

/// The forward and the losses of all of a step's rounds; training_passes() start from it. Throws
/// Error(bad_input) when sizes do not divide.
ir::Graph training_forward(const Deck& deck, const Mesh& mesh);
/// The plan of the whole training step on the mesh. Throws Error(bad_input) when sizes do not divide or a
/// pass cannot be switched off. `options` are those of choose_schedule (scheduling.hpp), or
/// pass_options(deck, mesh), in which nothing is chosen automatically. `observer` sees the graph before and
/// after each pass.
plan::Plan training_plan(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                         const passes::PassOptions& options, const passes::Observer& observer = {});
/// Lowers a step that all passes have run over: the last part of training_plan().
plan::Plan lowered(ir::Graph step, const Deck& deck, const plan::ScratchQuery& scratch);
/// The plan of a validation: the loss totals of `rounds` microbatches on each rank, one after the other.
plan::Plan evaluation_plan(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                           const passes::PassOptions& options, int rounds = 1);
/// The plan of a forward at one place of the mesh's pipe (the mesh has no other axis of several ranks): the
/// logits of one sequence of data.seq tokens, which stand on the pipe's last rank.
plan::Plan logits_plan(const Deck& deck, const Mesh& mesh, int pipe_rank, const plan::ScratchQuery& scratch);

}  // namespace weft::compile
