// Saving and resuming a run: the bridge between the model's state and ckpt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/save.hpp"
#include "deck/deck.hpp"
#include "runtime/model_state.hpp"

namespace weft::train {

/// What ckpt compares before it loads: one "key = value" a line.
std::string model_key(const Deck& deck);
/// How the world's ranks meet for ckpt.
ckpt::Hooks hooks_of(comm::World& world);

/// What of `deck` makes the training curve go on otherwise than the saved run's would have, in one line;
/// empty when nothing does.
std::string changes_since(const ckpt::RunState& saved, const Deck& deck);

/// Collective. Reads this rank's part of `dir` and publishes it. Returns the run's scalars. Throws
/// Error(bad_checkpoint) on all ranks when `dir` is no whole checkpoint, or one of another model.
ckpt::RunState load_checkpoint(const std::string& dir, const Deck& deck, comm::World& world,
                               runtime::ModelState& state);

struct Resumed {
  std::string path;
  bool own = false;  ///< it is in the run's own directory
  ckpt::RunState run;
  std::vector<std::string> damaged;  ///< the run's own checkpoints that proved damaged before
};
/// Collective. Loads the first of candidates() (starting_point.hpp) that is good to the last byte. Throws
/// Error(bad_checkpoint) on all ranks when one cannot be read, when the last that is left is damaged, or the
/// last of the run's own, and for a checkpoint of another model. Changes nothing on storage.
std::optional<Resumed> resume(const Deck& deck, comm::World& world, runtime::ModelState& state);
/// Collective: renames checkpoints that proved damaged, with a warning, out of the way of later saves and
/// starts. Not before the run is sure to go on.
void set_aside(const std::vector<std::string>& damaged, comm::World& world);

/// How far a run is.
struct Position {
  std::int64_t step = 0;  ///< optimizer steps done
  std::int64_t tokens = 0;
  std::int64_t sample = 0;  ///< global index of the next
};

/// What all checkpoints of this process say of the run: everything but the position.
ckpt::RunState describe_run(const Deck& deck, const comm::World& world);

/// What a rank saves: its own part of the state.
struct OwnState {
  const std::vector<Unit>& units;
  std::vector<ckpt::StateSlice> slices;
  std::function<void()> await_slices;  ///< as ckpt::SaveOptions says
};

/// Collective: begins to save as ckpt::Save says.
std::unique_ptr<ckpt::Save> begin_save(const Deck& deck, runtime::Session& session, ckpt::RunState run,
                                       OwnState state, const Position& at);

}  // namespace weft::train
