// Checks that all ranks see the run directory that rank 0 writes to.
#pragma once

#include <string>

#include "comm/world.hpp"
#include "deck/deck.hpp"

namespace weft::train {

/// Collective: checks that all ranks see rank 0's run directory. `mark`, on rank 0, is what the file
/// RUN_DIR/lock holds there; when it is empty nothing is checked, and the result is false. Throws on all
/// ranks when one of them does not find that file within the time that a network file system may take, a
/// minute and a half: Error(bad_input) where there is another file or none, because this rank's checkpoints
/// would then come from, and go, elsewhere; Error(environment) where it cannot be read.
bool check_shared_directory(comm::World& world, const Deck& deck, const std::string& mark);

}  // namespace weft::train
