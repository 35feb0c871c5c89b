// Checks, where a run starts, what all its ranks must have in common: ranks that train on different things
// would otherwise end in checkpoints of no model at all.
#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"
#include "deck/deck.hpp"

namespace weft::runtime {

/// Something that a rank was given, by its name and value: "the number of threads", "4".
struct Fact {
  std::string name;
  std::string value;
  std::string shown = {};  ///< what stands for the value in messages; empty: the value itself
};

/// Groups of ranks in which all must have the same facts: the first rank of each, and the group of this rank.
struct Groups {
  std::vector<int> first_ranks{0};
  int own = 0;
};

/// Collective: throws Error(bad_input) on all ranks unless each has the facts of its group's first rank, in
/// the same order. The message names each rank that differs, the facts, and both values; `advice` says what
/// to do.
void check_same(comm::World& world, const std::vector<Fact>& facts, const std::string& advice,
                const Groups& groups = {});

/// Collective: compares the keys of the resolved deck, as check_same() does. Keys that name files by paths
/// that may differ from host to host (data.train, data.valid, model.init) are left out: what is in these
/// files is compared when they are opened.
void check_same_deck(comm::World& world, const Deck& deck);

/// Collective: compares the program, as check_same() does: version, commit and build. It needs no deck, which
/// another version may read in another way.
void check_same_build(comm::World& world);

/// Collective: compares what processes compute with, as check_same() does: processor or device, libraries and
/// threads.
void check_same_machine(comm::World& world, const Deck& deck);

}  // namespace weft::runtime
