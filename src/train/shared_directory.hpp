// Whether all ranks see the run directory that rank 0 writes to.
#pragma once

#include <string>

#include "comm/world.hpp"
#include "deck/deck.hpp"

namespace weft::train {

/// Collective. `mark`, rank 0's, is what the file RUN_DIR/lock holds there; with an empty one nothing is
/// checked, and the result is false. Throws on all ranks when one of them does not find it within
/// the time that a network file system may take, a minute and a half: Error(bad_input) where there is another
/// file or none, because its checkpoints would come from, and go, elsewhere; Error(environment) where it
/// cannot be read.
bool check_shared_directory(comm::World& world, const Deck& deck, const std::string& mark);

}  // namespace weft::train
