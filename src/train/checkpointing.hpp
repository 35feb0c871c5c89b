// Saves and resumes a run: the bridge between the model's state and the folder ckpt.
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

/// The keys of the model that ckpt compares before it loads: one "key = value" a line.
std::string model_key(const Deck& deck);
/// The functions by which the world's ranks meet in ckpt.
ckpt::Hooks hooks_of(comm::World& world);

/// The keys of `deck` that make the training curve go on otherwise than the saved run's would have, in one
/// line; empty when there are none. The axes of parallel.mesh are told by their sizes on the ranks that saved
/// and on the run's `world` ranks.
std::string changes_since(const ckpt::RunState& saved, const Deck& deck, int world);

/// Collective: loads this rank's part of checkpoint `dir` into the state, and publishes it. Returns the run's
/// scalars. Throws Error(bad_checkpoint) on all ranks when `dir` is no whole checkpoint, or one of another
/// model.
ckpt::RunState load_checkpoint(const std::string& dir, const Deck& deck, comm::World& world,
                               runtime::ModelState& state);

struct Resumed {
  std::string path;  ///< without the links that its last component led through
  bool own = false;  ///< the checkpoint is in the run's own directory
  ckpt::RunState run;
  std::vector<std::string>
      damaged;  ///< the run's own checkpoints that were tried first and proved damaged, or lack a file
};
/// Collective: loads the first of candidates() (starting_point.hpp) that is good to the last byte. Those of
/// the run's own that lack a file are passed over with a warning. Throws Error(bad_checkpoint) on all ranks
/// when a candidate cannot be read or is of another model, and when the last candidate, or the last of the
/// run's own, is damaged; and what check_beginning() throws. Changes nothing on storage.
std::optional<Resumed> resume(const Deck& deck, comm::World& world, runtime::ModelState& state);
/// Collective: renames checkpoints that proved damaged, with a warning, so that they are out of the way of
/// later saves and starts. Call it only once the run is sure to go on.
void set_aside(const std::vector<std::string>& damaged, comm::World& world);
/// Collective: gives the run's own checkpoint its name back where it is called step-N.replaced, as
/// ckpt::give_name_back() does. Returns its path. Call it after set_aside().
std::string give_name_back(const std::string& checkpoint, comm::World& world);

/// How far a run has come.
struct Position {
  std::int64_t step = 0;  ///< optimizer steps done
  std::int64_t tokens = 0;
  std::int64_t sample = 0;  ///< global index of the next sample
};

/// What all checkpoints of this process say of the run: everything but how far it has come.
ckpt::RunState describe_run(const Deck& deck, const comm::World& world);

/// The part of the state that a rank saves.
struct OwnState {
  const std::vector<Unit>& units;
  std::vector<ckpt::StateSlice> slices;
  std::function<void()> await_slices;  ///< ckpt::SaveOptions explains it
};

/// Which earlier checkpoints a save leaves: what checkpoint.keep and checkpoint.keep_every say, or all.
enum class Earlier { as_deck, stay };

/// Collective: begins a save, as ckpt::Save describes.
std::unique_ptr<ckpt::Save> begin_save(const Deck& deck, runtime::Session& session, ckpt::RunState run,
                                       OwnState state, const Position& at, Earlier earlier);

}  // namespace weft::train
