#include "train/run_data.hpp"

#include <cstdint>
#include <iterator>
#include <span>
#include <utility>

#include "comm/agree.hpp"
#include "data/sequences.hpp"
#include "runtime/preflight.hpp"

namespace weft::train {

void RunData::open(const Deck& deck) {
  if (batches_) return;
  const data::BatchShape shape{deck.data.batch, deck.data.global_batch, deck.data.seq};
  const auto seed = static_cast<std::uint64_t>(deck.run.seed);
  if (deck.data.synthetic) {
    batches_ = data::synthetic_batches(seed, deck.model.vocab, shape);
    return;
  }
  data::Sequences train = runtime::open_sequences(deck, deck.data.train, "data.train");
  keep("data.train", train.files());
  for (const data::TokenFile& file : train.files()) amount_.tokens += file.tokens();
  amount_.files = std::ssize(train.files());
  amount_.sequences = train.count();
  if (!deck.data.valid.empty()) {
    data::Sequences valid = runtime::open_sequences(deck, deck.data.valid, "data.valid");
    // Without this check, bits per byte might mean nothing.
    data::check_same_tokenizer(valid.files()[0], train.files()[0]);
    keep("data.valid", valid.files());
    validation_.emplace(std::move(valid), deck.data.batch, deck.data.valid_sequences);
  }
  batches_ = data::file_batches(data::Sampler(std::move(train), seed), shape);
}

std::optional<double> RunData::epoch(std::int64_t sample) const {
  if (amount_.sequences == 0) return std::nullopt;
  return static_cast<double>(sample) / static_cast<double>(amount_.sequences);
}

void RunData::keep(const std::string& key, const std::vector<data::TokenFile>& files) {
  for (ckpt::DataFile& file : describe_files(key, files)) described_.push_back(std::move(file));
  files_.insert(files_.end(), files.begin(), files.end());
}

void RunData::start_check(comm::World& world, const std::vector<ckpt::DataFile>& saved) {
  if (!files_.empty()) check_ = std::make_unique<DataCheck>(world, files_, described_, saved);
}

void RunData::tell(report::StepNews& news) const {
  if (!check_) return;
  news.data_check = static_cast<double>(check_->state());
  news.data_left = static_cast<double>(check_->bytes_left());
}

std::optional<std::vector<ckpt::DataFile>> RunData::verified() const {
  if (!check_) return std::nullopt;
  return check_->verified();
}

std::optional<std::vector<ckpt::DataFile>> RunData::follow(comm::World& world, const report::StepNews& news) {
  if (!check_) return std::nullopt;
  switch (static_cast<DataCheck::State>(news.data_check)) {
    case DataCheck::State::under_way:
      check_->tell(static_cast<std::int64_t>(news.data_left));
      return std::nullopt;
    case DataCheck::State::failed: comm::agree(world, [&] { check_->rethrow(); }); return std::nullopt;
    case DataCheck::State::done: break;
  }
  auto described = verified();
  check_.reset();
  return described;
}

std::optional<std::vector<ckpt::DataFile>> RunData::finish_check(comm::World& world, double seconds,
                                                                 report::StepNews& news) {
  if (!check_) return std::nullopt;
  check_->wait(seconds);
  news.data_check = static_cast<double>(check_->state());
  world.all_reduce_max(std::span(&news.data_check, 1));
  return follow(world, news);
}

}  // namespace weft::train
