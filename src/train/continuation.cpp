#include "train/continuation.hpp"

#include "base/check.hpp"
#include "train/data_files.hpp"

namespace weft::train {
namespace {

/// The global batch of the run that saved the checkpoint, or the deck's own where that cannot be read.
std::int64_t saved_global_batch(const ckpt::RunState& run, const Deck& deck) {
  try {
    return parse_saved_deck(run.deck, "the checkpoint's deck").data.global_batch;
  } catch (const Error&) {
    return deck.data.global_batch;
  }
}

}  // namespace

void check_continues(const ckpt::RunState& run, const Deck& deck, const std::vector<ckpt::DataFile>& files,
                     const std::string& checkpoint) {
  const std::int64_t batch = deck.data.global_batch;
  WEFT_VALIDATE(
      saved_global_batch(run, deck) == batch && run.sample % batch == 0 && run.sample >= run.step * batch,
      "{}: the checkpoint stands at sample {}, which is not step {} of a global batch of {}; "
      "keep the deck's global batch",
      place_of(deck, "data.global_batch"), run.sample, run.step, batch);
  WEFT_VALIDATE(run.seed == static_cast<std::uint64_t>(deck.run.seed),
                "{}: {} is not the seed {} of the checkpoint {} (the order of the data would change); "
                "keep the seed, or set checkpoint.resume = \"never\"",
                place_of(deck, "run.seed"), deck.run.seed, run.seed, checkpoint);
  check_continued_files(run.data, files, deck, checkpoint);
}

}  // namespace weft::train
