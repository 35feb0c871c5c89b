// Finds the profile of the machine that plans are timed for: by schedule.profile, or by a default.
#pragma once

#include <string>
#include <string_view>

#include "deck/deck.hpp"
#include "machine/profile.hpp"

namespace weft::compile {

/// The profile in the file that the deck names. It is assumed where the deck names "host" or a machine
/// that Weft ships with, or names nothing and so leaves it to this build's device. Throws Error(bad_input)
/// when the file cannot be read, and as "FILE:LINE: PROBLEM" for a mistake in it.
machine::Profile machine_profile(const Deck& deck);

/// machine_profile() in two steps, for ranks of which one reads the file. First the text (empty where the
/// deck names a default), and then the profile of such a text.
std::string profile_text(const Deck& deck);
machine::Profile machine_profile(const Deck& deck, std::string_view text);

/// Whether the deck names the file of a profile. If not, plans are timed for an assumed machine, whose
/// seconds say how plans compare, but not what this machine takes.
bool has_measured_profile(const Deck& deck);

/// The deck as plans for this machine are made from it: where a host plans for a GPU, without what only hosts
/// do (the pass `rows`).
Deck planned_for(const machine::Profile& profile, Deck deck);

/// A line for a warning where the deck asks for products in Float8 that the machine does not make, and so
/// decodes: they gain nothing. Else nothing.
std::string float8_text(const Deck& deck, const machine::Profile& profile);

/// Where the profile comes from, for reports: the file, or "defaults".
std::string profile_source(const Deck& deck);

}  // namespace weft::compile
