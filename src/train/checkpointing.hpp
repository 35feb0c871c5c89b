// Saving and resuming a run: the bridge between the model's state and ckpt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ckpt/save.hpp"
#include "deck/deck.hpp"
#include "train/model_state.hpp"

namespace weft::train {

/// What ckpt compares before it loads: one "key = value" a line.
std::string model_key(const Deck& deck);
std::string checkpoints_dir(const Deck& deck);

/// The checkpoint that the deck's checkpoint.resume names, if any. Collective; rank 0 looks.
std::optional<std::string> find_checkpoint(const Deck& deck, comm::World& world);

/// Whether `dir` is in the checkpoints directory of this deck's run.
bool is_own_checkpoint(const Deck& deck, const std::string& dir);

/// What of `deck` makes the training curve go on otherwise than the saved run's would have, in one line;
/// empty when nothing does.
std::string changes_since(const ckpt::RunState& saved, const Deck& deck);

/// Collective. Reads this rank's part of `dir` and publishes it. Returns the run's scalars. Throws
/// Error(bad_checkpoint) on all ranks when `dir` is no whole checkpoint, or one of another model.
ckpt::RunState load_checkpoint(const std::string& dir, const Deck& deck, comm::World& world,
                               ModelState& state);

/// Collective. `step` optimizer steps and `tokens` tokens are done; `sample` is the next.
ckpt::SaveReport save_checkpoint(const Deck& deck, Session& session, ModelState& state, std::int64_t step,
                                 std::int64_t tokens, std::int64_t sample);

}  // namespace weft::train
