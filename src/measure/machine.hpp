// `weft profile`: a machine's profile from measurements on it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "deck/deck.hpp"
#include "machine/profile.hpp"
#include "runtime/session.hpp"

namespace weft::measure {

struct MachineOptions {
  double seconds = 60;  ///< about what the measurements may take in all
};

struct Measured {
  machine::Profile profile;
  std::vector<std::string> notes;      ///< what was left out, and why
  std::optional<double> compute_only;  ///< seconds of the deck's step without collectives
  double sum_of_kernels = 0;           ///< seconds of its kernels, by the profile
};

/// Collective: the rates of a rank; with two ranks or more the collectives, alone, two at once and beside
/// compute (the default's stand in for those of an axis with one rank); with a deck every kernel of its
/// training step. Equal on all ranks.
Measured measure_machine(const Deck* deck, runtime::Session& session, const MachineOptions& options);

/// For people, as rank 0 prints it.
std::string summary(const Measured& measured);

}  // namespace weft::measure
