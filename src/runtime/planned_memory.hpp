// What a rank takes from its host: planned before it is taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "plan/plan.hpp"

namespace weft::runtime {

/// Bytes of one rank.
struct PlannedMemory {
  std::int64_t state = 0;     ///< storages of all plans
  std::int64_t arena = 0;     ///< the largest plan's, with this rank's part of what its team has in common
  std::int64_t baseline = 0;  ///< program, libraries, plan, and what they allocate during the run
  std::int64_t copy = 0;      ///< state_copy_bytes, where the run makes room for it
  std::int64_t loading = 0;   ///< what loading a checkpoint takes for a moment, before there is a copy
  /// What a rank takes from the first step on.
  std::int64_t peak() const { return state + arena + baseline + copy; }
  /// What its host must have: loading is over before the copy is made, so the larger of the two counts.
  std::int64_t needed() const { return state + arena + baseline + std::max(copy, loading); }
};

/// `resident` is what the process holds with its plans made, before state and arena are allocated; `ranks`
/// are those of its host. `evaluate` may be null. On a GPU, state and arena are the device's, and the
/// baseline is 0: the host's memory is no part of the plan.
PlannedMemory planned_memory(const Deck& deck, const plan::Plan& train, const plan::Plan* evaluate,
                             std::int64_t resident, int ranks);

/// What loading a checkpoint takes on one of `world` ranks; 0 where the deck lets none be loaded, and on a
/// GPU.
std::int64_t loading_bytes(const Deck& deck, int world);

/// Of the copy of its part of the state that a rank needs for saves in the background; 0 where the deck has
/// none.
std::int64_t state_copy_bytes(const Deck& deck, const plan::Plan& train);

/// Its baseline as far as it is known before there is a plan, of a team of so many. What the log of a traced
/// step takes is not in it.
std::int64_t least_baseline(const Deck& deck, std::int64_t resident, int ranks, int team);

/// "needs 0.92 GiB on a rank (state 0.25, arena 0.57, baseline 0.04)"
std::string to_text(const PlannedMemory& memory);

}  // namespace weft::runtime
