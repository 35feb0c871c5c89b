// Plans what a rank will take of its GPU's or its host's memory, before it takes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "plan/plan.hpp"

namespace weft::runtime {

/// What one rank takes, in bytes.
struct PlannedMemory {
  std::int64_t state = 0;  ///< storages of all its plans
  /// The arena of the largest plan, with this rank's share of what its team has in common.
  std::int64_t arena = 0;
  std::int64_t baseline = 0;  ///< program, libraries, plan, and what they allocate during the run
  std::int64_t copy = 0;      ///< state_copy_bytes(), where the run makes room for it
  std::int64_t loading = 0;   ///< what loading a checkpoint takes for a moment, before there is a copy
  /// What a rank takes from the first step on.
  std::int64_t peak() const { return state + arena + baseline + copy; }
  /// What the rank's host must have. Loading is over before the copy is made, so only the larger of the two
  /// counts.
  std::int64_t needed() const { return state + arena + baseline + std::max(copy, loading); }
};

/// Plans the memory of a rank. `resident` is what the process holds with its plans made, before state and
/// arena are allocated; `ranks` are those of its host. `evaluate` may be null. On a GPU all of it is the
/// device's, and the host's memory is no part of the plan.
PlannedMemory planned_memory(const Deck& deck, const plan::Plan& train, const plan::Plan* evaluate,
                             std::int64_t resident, int ranks);

/// The same for a checkpoint's model that is loaded and evaluated, by its only plan. Nothing is saved.
PlannedMemory planned_evaluation(const Deck& deck, const plan::Plan& plan, std::int64_t resident, int ranks);

/// What loading a checkpoint takes on one of `world` ranks. It is 0 on a GPU, and where the deck lets no
/// checkpoint be loaded.
std::int64_t loading_bytes(const Deck& deck, int world);

/// What saving takes at most on a rank of the mesh, which planned_memory() has in the baseline. A mesh of one
/// rank has the most of all meshes. It is 0 on a GPU.
std::int64_t most_saving_bytes(const Deck& deck, const Mesh& mesh);

/// Bytes of the copy of its part of the state that a rank needs for saves in the background; 0 where the deck
/// has none.
std::int64_t state_copy_bytes(const Deck& deck, const plan::Plan& train);

/// How many ranks of a host, of `ranks_per_host`, a rank exchanges messages with, itself included. Ranks of a
/// team do in shared memory what others send, and in a pipe only neighbours talk.
int talking_ranks(const Mesh& mesh, int ranks_per_host);
/// The baseline of a rank as far as it is known before there is a plan. What the log of a traced step takes
/// is not in it.
std::int64_t least_baseline(const Deck& deck, std::int64_t resident, int talking);

/// The plan in words: "needs 1.12 GiB on a rank (state 0.25, arena 0.77, baseline 0.10)"; less than 1 GiB in
/// MiB.
std::string to_text(const PlannedMemory& memory);

}  // namespace weft::runtime
