// What a run must have in common with the one whose checkpoint it goes on from.
#pragma once

#include <string>
#include <vector>

#include "ckpt/state.hpp"
#include "deck/deck.hpp"

namespace weft::train {

/// Throws Error(bad_input) unless the deck's data go on where those of `checkpoint` stood: the same seed and
/// global batch, the same token files (data_files.hpp), and a sample that a step begins with. It may be later
/// than the steps done would bring it: rollbacks leave out data (docs/running.md).
void check_continues(const ckpt::RunState& run, const Deck& deck, const std::vector<ckpt::DataFile>& files,
                     const std::string& checkpoint);

}  // namespace weft::train
