// Whether all ranks see the run directory that rank 0 writes to.
#pragma once

#include <string>

#include "comm/world.hpp"

namespace weft::train {

/// Collective. `mark`, rank 0's, is what the file DIR/lock holds there. Throws Error(bad_input) on all ranks
/// when one of them does not find it within some seconds, which a network file system may take: its
/// checkpoints would go elsewhere.
void check_shared_directory(comm::World& world, const std::string& dir, const std::string& mark);

}  // namespace weft::train
