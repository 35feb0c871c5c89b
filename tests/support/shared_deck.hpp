// A small deck for a run of several ranks, which share its run directory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/world.hpp"
#include "support/small_deck.hpp"

namespace weft::test {

/// Collective: the small deck with some keys changed, in a run directory of rank 0's process.
inline Deck shared_deck(comm::World& world, std::vector<std::string> sets = {}) {
  const std::string dir = world.broadcast(small_deck().run.dir, 0);
  sets.insert(sets.begin(), "run.dir=" + dir);
  return small_deck(std::move(sets));
}

}  // namespace weft::test
