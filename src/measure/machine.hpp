// Makes a machine's profile from measurements on it, for `weft profile`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "machine/profile.hpp"
#include "measure/algorithms.hpp"
#include "runtime/session.hpp"

namespace weft::measure {

struct MachineOptions {
  double seconds = 60;  ///< about how long the measurements may take in all
};

struct Measured {
  machine::Profile profile;
  std::vector<std::string> notes;      ///< what was left out, and why
  std::optional<double> compute_only;  ///< seconds of the deck's step without its collectives
  Algorithms algorithms;               ///< of the step's products
  double sum_of_kernels = 0;  ///< seconds of that step's kernels, by the profile, on the slowest rank
};

/// The name of a profile that this run's ranks measure: how many they are, their host, a rank's threads, and
/// who computes fp32 products.
std::string name_of_machine(const comm::World& world, F32Products products);

/// Collective: measures the rates of a rank. With two ranks or more it also measures the collectives: alone,
/// two at once, and beside compute (for an axis with one rank it takes those of the default profile). With a
/// deck it measures every kernel of its training step. The result is equal on all ranks.
Measured measure_machine(const Deck* deck, runtime::Session& session, const MachineOptions& options);

/// The result in words, as rank 0 prints it.
std::string summary(const Measured& measured);

}  // namespace weft::measure
