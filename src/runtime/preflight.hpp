// Checks what must be right before a run takes memory or writes a byte.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "data/sequences.hpp"
#include "deck/deck.hpp"
#include "plan/plan.hpp"
#include "runtime/planned_memory.hpp"

namespace weft::runtime {

/// Opens the token files that the deck's `key` names, patterns of names among them (data::matching_paths()).
/// Throws Error(bad_input), with the key's place, when one cannot be read, has more ids than the model, is of
/// another tokenizer than the first, or is shorter than a sample.
data::Sequences open_sequences(const Deck& deck, const std::vector<std::string>& paths, const char* key);

/// The line for a run that `needs` (to_text() of its planned memory) more than run.memory_limit.
std::string over_limit_text(const Deck& deck, const std::string& needs, const std::string& what_to_do);
/// What to do where a rank's baseline alone is more than run.memory_limit.
inline constexpr const char* above_by_baseline =
    "the baseline alone is more, and another mesh hardly changes that: use fewer threads a rank, or raise "
    "run.memory_limit";

/// What the ranks of a place on the pipe would need with another deck on this many ranks. Throws
/// Error(bad_input) when there is no such plan.
using Replan = std::function<PlannedMemory(const Deck&, int ranks, int place)>;

/// What the lines of check_memory() say that there is to do.
struct WhatToDo {
  std::function<std::string()> over_limit;  ///< where run.memory_limit is too low; rank 0 alone calls it
  std::string too_little;                   ///< where the host or the GPU has too little
};

/// Collective; call it before anything is allocated. Throws Error(bad_input) when a rank needs more than
/// run.memory_limit; and when the ranks of a host need more than it has left, which would otherwise kill
/// processes without a word; or a rank more than its GPU has left for it.
void check_memory(const Deck& deck, const PlannedMemory& memory, const WhatToDo& what_to_do,
                  comm::World& world);
/// The same for training. Where run.memory_limit is too low, the line says what would fit by `replan`, which
/// rank 0 alone calls.
void check_memory(const Deck& deck, const PlannedMemory& memory, const Replan& replan, comm::World& world);

}  // namespace weft::runtime
