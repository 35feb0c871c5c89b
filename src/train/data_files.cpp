#include "train/data_files.hpp"

#include <algorithm>
#include <iterator>

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

}  // namespace

std::vector<ckpt::DataFile> describe_files(const std::string& key,
                                           const std::vector<data::TokenFile>& files) {
  std::vector<ckpt::DataFile> described;
  for (const data::TokenFile& file : files)
    described.push_back({key, one_line(file.path()), file.tokens(), file.fingerprint(), {}});
  return described;
}

void check_same_files(comm::World& world, const std::vector<ckpt::DataFile>& files) {
  std::vector<runtime::Fact> facts;
  for (const ckpt::DataFile& file : files)
    facts.push_back({file.key, content_of(file), fmt::format("{} ({})", file.path, content_of(file))});
  runtime::check_same(world, facts, "copy the same token files to all hosts");
}

void check_continued_files(const std::vector<ckpt::DataFile>& saved, const std::vector<ckpt::DataFile>& files,
                           const Deck& deck, const std::string& checkpoint) {
  if (deck.data.allow_change || saved.empty()) return;
  check_key(of_key(saved, "data.train"), of_key(files, "data.train"), place_of(deck, "data.train"),
            checkpoint);
  const auto saved_valid = of_key(saved, "data.valid");
  const auto valid = of_key(files, "data.valid");
  // The validation data may begin, or be left out, at any time, because the training curve does not depend on
  // them.
  if (!saved_valid.empty() && !valid.empty())
    check_key(saved_valid, valid, place_of(deck, "data.valid"), checkpoint);
}

}  // namespace weft::train
