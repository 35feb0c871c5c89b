// Compares a run's token files: over all ranks, and from one start of the run to the next.
#pragma once

#include <string>
#include <vector>

#include "ckpt/state.hpp"
#include "comm/world.hpp"
#include "data/token_file.hpp"
#include "deck/deck.hpp"

namespace weft::train {

/// The token files that a key names, in its order, as checkpoints describe them.
std::vector<ckpt::DataFile> describe_files(const std::string& key, const std::vector<data::TokenFile>& files);

/// Collective: throws Error(bad_input) on all ranks, naming file and rank, unless each rank has opened files
/// of the same content.
void check_same_files(comm::World& world, const std::vector<ckpt::DataFile>& files);

/// Throws Error(bad_input), naming the first file that differs, unless `files` have the content of those that
/// `saved` names for each key that it has, or the deck says that data were changed on purpose. A checkpoint
/// that names no files passes: it comes from an older version, or from a source of data without files.
void check_continued_files(const std::vector<ckpt::DataFile>& saved, const std::vector<ckpt::DataFile>& files,
                           const Deck& deck, const std::string& checkpoint);

}  // namespace weft::train
