// The machine that plans are timed for: from schedule.profile, or assumed.
#pragma once

#include <string>
#include <string_view>

#include "deck/deck.hpp"
#include "machine/profile.hpp"

namespace weft::compile {

/// The profile in the file that the deck names; a default where it names "host" or "h100" or, being empty,
/// leaves it to this build's device. Throws Error(bad_input): the file cannot be read, "FILE:LINE: PROBLEM"
/// for a mistake in it.
machine::Profile machine_profile(const Deck& deck);

/// The same in two steps, for ranks of which one reads the file: its text (empty where the deck names a
/// default), and the profile of such a text.
std::string profile_text(const Deck& deck);
machine::Profile machine_profile(const Deck& deck, std::string_view text);

/// Whether the deck names the file of a profile. Else plans are timed for an assumed machine, whose seconds
/// say how plans compare, not what this machine takes.
bool has_measured_profile(const Deck& deck);

/// For reports: the file, or "defaults".
std::string profile_source(const Deck& deck);

}  // namespace weft::compile
