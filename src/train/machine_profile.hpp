// The machine that a run's plans are timed for: from schedule.profile, or assumed.
#pragma once

#include <string>

#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "machine/profile.hpp"

namespace weft::train {

/// The profile in the file that the deck names; a default where it names "host" or "h100" or, being empty,
/// leaves it to this build's device. Throws Error(bad_input): the file cannot be read, "FILE:LINE: PROBLEM"
/// for a mistake in it.
machine::Profile machine_profile(const Deck& deck);
/// Collective: rank 0 reads, all have the same numbers, so that what follows from them is one plan.
machine::Profile machine_profile(const Deck& deck, comm::World& world);

/// For reports: the file, or "defaults".
std::string profile_source(const Deck& deck);

}  // namespace weft::train
