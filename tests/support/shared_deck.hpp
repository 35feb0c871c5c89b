// A small deck for a run of several ranks, which share its run directory.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "comm/world.hpp"
#include "support/mpi_environment.hpp"
#include "support/small_deck.hpp"

namespace weft::test {

/// A collective a unit. Such a plan is made in a third of the time of one that is searched: for tests whose
/// subject is not the schedule.
inline constexpr const char* unit_buckets = "schedule.bucketing=none";

/// Sequences of a step, by the program's ranks: three rounds of accumulation (a first, a middle and a last
/// one; four on one rank, and two on six), because making a plan takes as long as its rounds are many.
inline int shared_batch() {
  return std::min(12, world().size() == 1 ? 4 : 3 * world().size());
}

/// Collective over `ranks`: the small deck with keys changed, in a run directory of their rank 0's process.
/// Equal on all ranks of the program and on one alone.
inline Deck shared_deck(comm::World& ranks, std::vector<std::string> sets = {}) {
  const std::string dir = ranks.broadcast(small_deck().run.dir, 0);
  sets.insert(sets.begin(), {"run.dir=" + dir, "data.global_batch=" + std::to_string(shared_batch())});
  return small_deck(std::move(sets));
}

}  // namespace weft::test
