// Makes the state that a run begins with. It is drawn, read from weights, or loaded from a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/state.hpp"
#include "deck/deck.hpp"
#include "runtime/model_state.hpp"
#include "train/checkpointing.hpp"

namespace weft::train {

/// Where the state comes from.
struct Start {
  Position at;
  /// The checkpoint that was loaded; nothing for a run from the start.
  std::optional<std::string> checkpoint;
  /// Whether that checkpoint is the run's own. Then the curve in the run's files goes on; the curve of
  /// another run's checkpoint does not belong to them.
  bool resumed = false;
  double load_s = 0;                       ///< seconds that reading the checkpoint took
  std::string origin;                      ///< RunState::origin
  std::vector<ckpt::DataFile> saved_data;  ///< the token files, as the checkpoint describes them
  std::string saved_deck;                  ///< the deck of the run that saved the checkpoint
  std::vector<std::string> damaged;        ///< the run's own checkpoints that proved damaged
  std::string note;                        ///< a line that the user should see; may be empty
  /// Where model.init led, without the links of its last component; empty without it. A run that goes back to
  /// its beginning reads there again: a link such as `latest` may lead elsewhere by then.
  std::string weights;

  /// The step whose later lines are dropped from the run's files; nothing for files that begin anew.
  std::optional<std::int64_t> resumed_at() const { return resumed ? std::optional(at.step) : std::nullopt; }
};

/// Collective: fills the state by checkpoint.resume, model.init and run.seed. `data` are the run's token
/// files. Throws on all ranks what resume(), check_continues() and start_from() throw; and Error(bad_input)
/// where checkpoint.resume names another run's checkpoint that leaves no step to do.
Start start_state(const Deck& deck, comm::World& world, runtime::ModelState& state,
                  const std::vector<ckpt::DataFile>& data);

/// Collective: sets the state of a run that begins at step 0; `weights` is Start::weights. Returns a line
/// about it for the log, if there is one.
std::string initialise(const Deck& deck, const std::string& weights, comm::World& world,
                       runtime::ModelState& state);

}  // namespace weft::train
