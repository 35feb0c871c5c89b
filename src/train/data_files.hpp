// Compares a run's token files: over all ranks, and from one start of the run to the next. Tells how much of
// them the run sees.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ckpt/state.hpp"
#include "comm/world.hpp"
#include "data/token_file.hpp"
#include "data/tokenizer.hpp"
#include "deck/deck.hpp"
#include "train/checkpointing.hpp"

namespace weft::train {

/// How much there is to train on. An epoch is one pass over all sequences.
struct DataAmount {
  std::int64_t tokens = 0, files = 0;
  std::int64_t sequences = 0;  ///< of data.seq tokens; 0: the batches come from no files
};

/// The line that says so, and how many epochs the run comes to that begins at `at`. There are sequences.
std::string amount_text(const DataAmount& amount, const Deck& deck, const Position& at);

/// What to warn of, where the run that begins at `at` will see sequences again: because it comes to a second
/// epoch, or in one step. Empty where it will not, and in an epoch after the first.
std::string repeat_text(const DataAmount& amount, const Deck& deck, const Position& at);

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

/// Throws Error(bad_input) where a file that a checkpoint was trained on (`saved`) is still there and says
/// that another tokenizer wrote it than this one, which the user calls `named`. Nothing can be said of files
/// that have gone or changed, and of those that do not know the hash of their tokenizer.
void check_tokenizer_of_data(const std::vector<ckpt::DataFile>& saved, const data::Tokenizer& tokenizer,
                             const std::string& named);

}  // namespace weft::train
