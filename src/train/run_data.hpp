// What a run trains on and validates with: batches, and the token files that they come from.
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

namespace weft::train {

/// The token files are verified while the run trains (data_check.hpp). What the check of all ranks has come
/// to travels with each step's news.
class RunData {
 public:
  /// `batches` replaces the deck's training data.
  explicit RunData(std::unique_ptr<data::BatchSource> batches) : batches_(std::move(batches)) {}

  /// Opens what the deck names. Throws Error(bad_input) when a file is not what the deck needs.
  void open(const Deck& deck);

  data::BatchSource& batches() { return *batches_; }
  /// Null without data.valid.
  const data::ValidationSource* validation() const { return validation_ ? &*validation_ : nullptr; }
  /// What checkpoints say of the files as they were opened: those of data.train, then those of data.valid.
  const std::vector<ckpt::DataFile>& described() const { return described_; }

  /// Collective: begins to verify the files, but for those that `saved`, the checkpoint that the run goes on
  /// from, calls verified.
  void start_check(comm::World& world, const std::vector<ckpt::DataFile>& saved);
  /// Whether the files are being verified.
  bool is_checked() const { return check_ != nullptr; }
  /// How far this rank's check is, for the next step's news.
  void tell(report::StepNews& news) const;
  /// Collective: the files as checkpoints should describe them now; nothing when no check is under way, and
  /// the description has not changed.
  std::optional<std::vector<ckpt::DataFile>> verified() const;
  /// Goes by the news of all ranks. Throws, on all ranks, the mistake that one has found in a file. When all
  /// ranks are done the check is over, and the result is the files' description to keep.
  std::optional<std::vector<ckpt::DataFile>> follow(comm::World& world, const report::StepNews& news);
  /// Collective: waits for so many seconds at most until this rank's check is at its end, then follow()s.
  std::optional<std::vector<ckpt::DataFile>> finish_check(comm::World& world, double seconds,
                                                          report::StepNews& news);

 private:
  void keep(const std::string& key, const std::vector<data::TokenFile>& files);

  std::unique_ptr<data::BatchSource> batches_;
  std::optional<data::ValidationSource> validation_;
  std::vector<data::TokenFile> files_;
  std::vector<ckpt::DataFile> described_;
  std::unique_ptr<DataCheck> check_;  ///< while it is under way
};

}  // namespace weft::train
