// Reads the profile of the machine that a run's plans are timed for, the same on all its ranks.
#pragma once

#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "machine/profile.hpp"

namespace weft::runtime {

/// Collective: does what compile::machine_profile() does, but only rank 0 reads the file, so that all ranks
/// plan with the same numbers.
machine::Profile machine_profile(const Deck& deck, comm::World& world);

}  // namespace weft::runtime
