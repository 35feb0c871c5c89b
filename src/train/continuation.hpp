// Checks what a run must have in common with the run whose checkpoint it goes on from.
#pragma once

#include <string>
#include <vector>

#include "ckpt/state.hpp"
#include "deck/deck.hpp"

namespace weft::train {

/// Throws Error(bad_input) unless the deck's data go on where those of the checkpoint stood: with the same
/// seed and global batch, the same token files (data_files.hpp), and a sample with which a step begins. The
/// sample may be later than the number of steps alone would bring it, because rollbacks leave out data
/// (docs/running.md).
void check_continues(const ckpt::RunState& run, const Deck& deck, const std::vector<ckpt::DataFile>& files,
                     const std::string& checkpoint);

}  // namespace weft::train
