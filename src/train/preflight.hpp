// What is checked before a run takes memory or writes a byte.
#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"
#include "data/windows.hpp"
#include "deck/deck.hpp"
#include "plan/plan.hpp"

namespace weft::train {

/// Opens the token files that the deck's `key` names. Throws Error(bad_input), with the key's place, when one
/// cannot be read, has more ids than the model, is of another tokenizer than the first, or is shorter than a
/// sample.
data::Windows open_windows(const Deck& deck, const std::vector<std::string>& paths, const char* key);

/// Collective, and before anything is allocated: throws Error(bad_input) when the plans need more memory than
/// a host has left, which otherwise kills processes without a word. `evaluate` may be null. Checks nothing on
/// a GPU, whose allocator says so itself.
void check_memory(const Deck& deck, const plan::Plan& train, const plan::Plan* evaluate, comm::World& world);

}  // namespace weft::train
