#include "train/data_files.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/check.hpp"
#include "base/quoted.hpp"
#include "runtime/same.hpp"

namespace weft::train {
namespace {

std::string content_of(const ckpt::DataFile& file) {
  return fmt::format("{} tokens, fingerprint {:016x}", file.tokens, file.fingerprint);
}

std::vector<ckpt::DataFile> of_key(const std::vector<ckpt::DataFile>& files, const std::string& key) {
  std::vector<ckpt::DataFile> some;
  std::copy_if(files.begin(), files.end(), std::back_inserter(some),
               [&](const ckpt::DataFile& file) { return file.key == key; });
  return some;
}

void check_key(const std::vector<ckpt::DataFile>& saved, const std::vector<ckpt::DataFile>& files,
               const std::string& place, const std::string& checkpoint) {
  const char* const advice =
      "give the files of the checkpoint, or set data.allow_change = true if they were changed on purpose";
  for (std::size_t i = 0; i < std::min(saved.size(), files.size()); ++i)
    WEFT_VALIDATE(saved[i].fingerprint == files[i].fingerprint && saved[i].tokens == files[i].tokens,
                  "{}: {} has {}, and the checkpoint {} was trained on {} with {} (the curve would mix two "
                  "sets of data); {}",
                  place, files[i].path, content_of(files[i]), checkpoint, saved[i].path, content_of(saved[i]),
                  advice);
  WEFT_VALIDATE(
      saved.size() == files.size(),
      "{} names {} files, and the checkpoint {} was trained on {} (the curve would mix two sets of data); {}",
      place, files.size(), checkpoint, saved.size(), advice);
}

/// The first sample that a run which begins at `at` leaves out.
std::int64_t end_of(const Deck& deck, const Position& at) {
  return at.sample + (deck.run.steps - at.step) * deck.data.global_batch;
}

}  // namespace

std::string amount_text(const DataAmount& amount, const Deck& deck, const Position& at) {
  return fmt::format(
      "data.train: {} tokens in {} {}, {} sequences of {}; a step takes {}, and the run comes to {:.3g} "
      "epochs",
      amount.tokens, amount.files, amount.files == 1 ? "file" : "files", amount.sequences, deck.data.seq,
      deck.data.global_batch, static_cast<double>(end_of(deck, at)) / static_cast<double>(amount.sequences));
}

std::string repeat_text(const DataAmount& amount, const Deck& deck, const Position& at) {
  const std::int64_t in_step = deck.data.global_batch, all = amount.sequences;
  if (all == 0) return {};
  if (in_step > all)
    return fmt::format(
        "a step takes {} sequences, and data.train has {}: each step sees some of them more than once; give "
        "more data, or make data.global_batch smaller",
        in_step, all);
  if (at.sample > all || end_of(deck, at) <= all) return {};
  return fmt::format(
      "the run begins a second epoch in step {} of {}: from there on it sees the {} sequences of data.train "
      "again; give more data if that is not meant",
      at.step + (all - at.sample) / in_step + 1, deck.run.steps, all);
}

std::vector<ckpt::DataFile> describe_files(const std::string& key,
                                           const std::vector<data::TokenFile>& files) {
  std::vector<ckpt::DataFile> described;
  for (const data::TokenFile& file : files)
    described.push_back({key, one_line(file.path()), file.tokens(), file.fingerprint(), {}});
  return described;
}

void check_same_files(comm::World& world, const std::vector<ckpt::DataFile>& files) {
  // Patterns of names can stand for fewer files on one host than on another.
  std::vector<runtime::Fact> facts{
      {"the number of files of data.train", fmt::format("{}", of_key(files, "data.train").size())}};
  for (const ckpt::DataFile& file : files)
    facts.push_back({file.key, content_of(file), fmt::format("{} ({})", file.path, content_of(file))});
  runtime::check_same(world, facts, "copy the same token files to all hosts");
}

void check_continued_files(const std::vector<ckpt::DataFile>& saved, const std::vector<ckpt::DataFile>& files,
                           const Deck& deck, const std::string& checkpoint) {
  if (deck.data.allow_change || saved.empty()) return;
  WEFT_VALIDATE(
      !deck.data.synthetic,
      "{}: the run would train on synthetic tokens, and the checkpoint {} was trained on {} (the curve "
      "would mix two sets of data); leave the key out, start over in another run.dir, or set "
      "data.allow_change = true if that is on purpose",
      place_of(deck, "data.synthetic"), checkpoint, saved[0].path);
  check_key(of_key(saved, "data.train"), of_key(files, "data.train"), place_of(deck, "data.train"),
            checkpoint);
  const auto saved_valid = of_key(saved, "data.valid");
  const auto valid = of_key(files, "data.valid");
  // The validation data may begin, or be left out, at any time, because the training curve does not depend on
  // them.
  if (!saved_valid.empty() && !valid.empty())
    check_key(saved_valid, valid, place_of(deck, "data.valid"), checkpoint);
}

void check_tokenizer_of_data(const std::vector<ckpt::DataFile>& saved, const data::Tokenizer& tokenizer,
                             const std::string& named) {
  for (const ckpt::DataFile& file : of_key(saved, "data.train")) {
    std::optional<data::TokenFile> opened;
    try {
      opened = data::TokenFile::open(file.path);
    } catch (const Error&) {
      continue;
    }
    const bool tells = opened->tokenizer() != data::TokenizerKind::unknown && opened->tokenizer_hash() != 0;
    if (opened->fingerprint() != file.fingerprint || !tells) continue;
    try {
      data::check_tokenizer(*opened, tokenizer);
    } catch (const Error& e) {
      throw Error(ExitCode::bad_input,
                  fmt::format("--tokenizer {}: not that of the data that the checkpoint was trained on ({})",
                              named, e.what()));
    }
  }
}

}  // namespace weft::train
