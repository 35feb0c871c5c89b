// Writes what a run reports, apart from checkpoints and the resolved deck: metrics.jsonl, hashes.jsonl,
// TensorBoard events, the log, and the progress line. Rank 0 writes; on other ranks the calls do nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare/hash_file.hpp"
#include "deck/deck.hpp"
#include "report/metrics.hpp"
#include "report/progress.hpp"
#include "report/rank_times.hpp"
#include "report/spikes.hpp"
#include "report/summary.hpp"
#include "report/tensorboard.hpp"

namespace weft::report {

class Report {
 public:
  /// Opens the files in run.dir; `places` has the place of each rank. Throws Error(environment) when they
  /// cannot be written.
  Report(const Deck& deck, int rank, std::vector<RankPlace> places, std::optional<std::int64_t> resumed_at,
         Summary::About about);

  /// Reports a training step, after looking whether its loss is a spike.
  void train(StepMetrics metrics);
  void validation(const StepMetrics& metrics);
  void saved(const SaveMetrics& metrics, const std::string& path);
  void hashes(const compare::StepHashes& hashes);
  void ranks(std::int64_t step, const RankFigures& own);
  void note(const std::string& line);
  /// The run goes on from `step` once more: drops what the files hold of later steps, as a resumed run does.
  void go_back(std::int64_t step);
  /// Ends the progress line, and shows the summary.
  void finish();

 private:
  void open(std::optional<std::int64_t> resumed_at);

  std::string dir_;
  LogDeck log_;
  bool hashed_;
  std::vector<RankPlace> places_;
  Spikes spikes_;
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<compare::HashWriter> hashes_;  ///< null without debug.hash_every
  std::unique_ptr<EventWriter> events_;
  std::unique_ptr<SlowRanks> ranks_;  ///< null with a single rank
  std::unique_ptr<Progress> progress_;
  Summary summary_;
};

}  // namespace weft::report
