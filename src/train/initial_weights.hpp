// Starts a new run from weights that exist already (the deck's key model.init).
#pragma once

#include <string>

#include "deck/deck.hpp"
#include "runtime/model_state.hpp"

namespace weft::train {

/// Collective: fills the masters with the weights that model.init names, the moments with zeros, and
/// publishes them; each rank reads what it holds. They are read at `place`, where model.init has led when the
/// run began (Start::weights). Returns a line for the log. Throws on all ranks:
/// Error(bad_input) when the deck's model is not that of the weights, naming the first key that differs, and
/// Error(bad_checkpoint) when they cannot be used. Keys that are no sizes (rope_theta, norm_eps,
/// rope_scaling) may differ where the deck sets them itself.
std::string start_from(const Deck& deck, const std::string& place, comm::World& world,
                       runtime::ModelState& state);

}  // namespace weft::train
