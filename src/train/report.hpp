// What a run writes beside checkpoints: the resolved deck, metrics.jsonl, hashes.jsonl, TensorBoard events,
// the log, the progress line. Rank 0 writes; on other ranks the calls do nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "deck/deck.hpp"
#include "train/hash_file.hpp"
#include "train/metrics.hpp"
#include "train/progress.hpp"
#include "train/spikes.hpp"
#include "train/summary.hpp"
#include "train/tensorboard.hpp"

namespace weft::train {

/// Makes run.dir and writes the resolved deck there. Throws Error(bad_input) when that fails.
void make_run_directory(const Deck& deck);

class Report {
 public:
  /// Opens the files in run.dir. Throws Error(bad_input) when they cannot be written.
  Report(const Deck& deck, int rank, std::optional<std::int64_t> resumed_at, Summary::About about);

  /// Looks for a spike first.
  void train(StepMetrics metrics);
  void validation(const StepMetrics& metrics);
  void hashes(const StepHashes& hashes);
  void note(const std::string& line);
  /// The run goes on from `step` once more: what the files hold of later steps is dropped, as by a resumed
  /// run.
  void go_back(std::int64_t step);
  /// Ends the progress line and tells the summary.
  void finish();

 private:
  void open(std::optional<std::int64_t> resumed_at);

  std::string dir_;
  LogDeck log_;
  bool hashed_;
  Spikes spikes_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<HashWriter> hashes_;  ///< with debug.hash_every
  std::unique_ptr<EventWriter> events_;
  std::unique_ptr<Progress> progress_;
  Summary summary_;
};

}  // namespace weft::train
