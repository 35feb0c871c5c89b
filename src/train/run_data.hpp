// The data of a run: the batches that it trains on and validates with, and the token files that these come
// from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/state.hpp"
#include "comm/world.hpp"
#include "data/batch_source.hpp"
#include "data/token_file.hpp"
#include "data/validation_source.hpp"
#include "deck/deck.hpp"
#include "report/slowest_rank.hpp"
#include "train/data_check.hpp"
#include "train/data_files.hpp"

namespace weft::train {

/// Holds a run's data. The token files are verified while the run trains (data_check.hpp). How far the ranks'
/// checks are travels with each step's news.
class RunData {
 public:
  /// `batches` replaces the deck's training data.
  explicit RunData(std::unique_ptr<data::BatchSource> batches) : batches_(std::move(batches)) {}

  /// Opens what the deck names. Throws Error(bad_input) when a file is not what the deck needs.
  void open(const Deck& deck);

  data::BatchSource& batches() { return *batches_; }
  /// The source of the validation's microbatches; null without data.valid.
  const data::ValidationSource* validation() const { return validation_ ? &*validation_ : nullptr; }
  const DataAmount& amount() const { return amount_; }
  /// How many epochs the samples below `sample` are; nothing where the batches come from no files.
  std::optional<double> epoch(std::int64_t sample) const;
  /// How checkpoints describe the files as they were opened: those of data.train, then those of data.valid.
  const std::vector<ckpt::DataFile>& described() const { return described_; }

  /// Collective: begins to verify the files, except those that `saved` calls verified. That is the
  /// description in the checkpoint that the run goes on from.
  void start_check(comm::World& world, const std::vector<ckpt::DataFile>& saved);
  /// Whether the files are being verified.
  bool being_checked() const { return check_ != nullptr; }
  /// Writes into the next step's news how far this rank's check is.
  void tell(report::StepNews& news) const;
  /// Collective: how checkpoints should describe the files now. Nothing when no check is under way, because
  /// then the description has not changed.
  std::optional<std::vector<ckpt::DataFile>> verified() const;
  /// Acts on the news of all ranks. Throws, on all ranks, the mistake that one has found in a file. When all
  /// ranks are done the check is over, and the result is the description that checkpoints keep from then on.
  std::optional<std::vector<ckpt::DataFile>> follow(comm::World& world, const report::StepNews& news);
  /// Collective: waits at most `seconds` for the end of this rank's check, and then does what follow() does.
  std::optional<std::vector<ckpt::DataFile>> finish_check(comm::World& world, double seconds,
                                                          report::StepNews& news);

 private:
  void keep(const std::string& key, const std::vector<data::TokenFile>& files);

  std::unique_ptr<data::BatchSource> batches_;
  std::optional<data::ValidationSource> validation_;
  DataAmount amount_;
  std::vector<data::TokenFile> files_;
  std::vector<ckpt::DataFile> described_;
  std::unique_ptr<DataCheck> check_;  ///< null when no check is under way
};

}  // namespace weft::train
