// `weft train`: the loop over steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "ckpt/state.hpp"
#include "compare/value_hashes.hpp"
#include "data/batch_source.hpp"
#include "deck/deck.hpp"
#include "exec/trace.hpp"
#include "job/run_directory.hpp"
#include "job/stop_request.hpp"
#include "report/metrics.hpp"
#include "report/report.hpp"
#include "report/slowest_rank.hpp"
#include "runtime/inputs.hpp"
#include "runtime/model_state.hpp"
#include "runtime/planned_memory.hpp"
#include "train/bad_steps.hpp"
#include "train/data_check.hpp"
#include "train/saver.hpp"
#include "train/validation.hpp"

namespace weft::train {

/// finished: all of run.steps; unfinished: start it again to go on; stopped: so, but only by hand.
enum class Outcome : std::uint8_t { finished, unfinished, stopped };

class Trainer {
 public:
  /// Collective. Opens the data, plans, checks that all ranks made the same plan, allocates everything,
  /// measures the plan's compute-only step, and initialises the state or loads the checkpoint that
  /// checkpoint.resume names. `batches` replaces the deck's training data (golden tests feed PyTorch's
  /// tokens). `on_directory` is called once the run directory is there and all ranks see the same one.
  Trainer(const Deck& deck, comm::World& world, std::unique_ptr<data::BatchSource> batches = nullptr,
          std::function<void()> on_directory = {});
  ~Trainer();

  /// Runs until run.steps, until run.walltime leaves no time for what comes next, or until a rank is asked to
  /// stop; validates, saves and reports as the deck says.
  Outcome run();

  // For tests, and as the steps of run().
  runtime::ModelState& state() { return *state_; }
  const plan::Plan& plan() const { return train_->plan(); }
  exec::Capture capture() const { return train_->capture(); }
  std::int64_t step() const { return step_; }
  /// One optimizer step. The metrics are the same on every rank.
  report::StepMetrics train_step();
  /// Empty without data.valid.
  std::optional<report::StepMetrics> validate();

 private:
  void open_data();
  void build();
  void measure_compute_only();
  /// Returns a line about where the state comes from that the user should see, if any.
  std::string initialise_or_resume();
  std::string initialise();
  /// What checkpoints say of this run.
  ckpt::RunState description();
  void make_directory();
  void check_directory();
  void start_data_check();
  /// Goes by what all ranks reported with the last step (news_): throws the mistake that a rank has found in
  /// a token file; when all are done, notes in later checkpoints that the files are verified.
  void look_at_data_check();
  /// The last save is not put off for files that take long; small ones are verified by then.
  enum class Patience : std::uint8_t { before_last_save, after_last_save };
  /// Collective: waits for the end of the check, and looks at what has come of it.
  void finish_data_check(Patience patience);
  /// So long may finish_data_check() wait, in seconds.
  double seconds_of(Patience patience) const;
  /// Before a save: the checkpoint names the token files that have been verified so far.
  void mark_verified();
  /// Tokens, targets and positions, and the step block.
  void upload_inputs(const StepBlock& block);
  report::StepMetrics collect(const exec::Times& times, double step_seconds);
  std::int64_t resident_bytes() const;
  void start_trace();
  /// Of the step that the deck names, with what follows it; else nothing.
  void write_trace();
  /// Collective: how long each rank has taken since the last call.
  void tell_ranks();
  Position position() const;
  bool save_if_due();
  /// Before run.steps: saves, and tells why.
  Outcome end_early(const std::string& why);
  [[noreturn]] void fail_unsaved(const std::string& why) const;
  /// Whether the run goes on behind the step; false when it has gone back to an earlier one. Throws when it
  /// stops here.
  bool goes_on_after(const report::StepMetrics& metrics);
  void locate_nonfinite(const report::StepMetrics& metrics);
  void roll_back();
  bool hashes_after(std::int64_t step) const;
  bool validates_after(std::int64_t step) const;
  bool saves_after(std::int64_t step) const;
  double seconds_to_next_save() const;
  bool out_of_time();
  /// Why to end before the next step; empty when nothing asks for it. All ranks agree.
  std::string reason_to_stop();

  Deck deck_;
  runtime::Session session_;
  std::optional<job::RunDirectory> directory_;  ///< rank 0's
  std::function<void()> on_directory_;
  job::StopRequest stop_;
  report::StepNews news_;  ///< of all ranks, at the end of the last step
  runtime::MicrobatchBuffers buffers_;
  std::unique_ptr<data::BatchSource> batches_;
  std::optional<data::ValidationSource> valid_;
  std::vector<data::TokenFile> files_;     ///< of data.train, then of data.valid
  std::vector<ckpt::DataFile> data_;       ///< what checkpoints say of them
  std::unique_ptr<DataCheck> data_check_;  ///< while it is under way; null without files
  std::unique_ptr<exec::Executor> train_, evaluate_;
  std::unique_ptr<runtime::ModelState> state_;
  std::unique_ptr<Validation> validation_;
  std::unique_ptr<compare::ValueHashes> hashes_;  ///< with debug.hash_every
  std::unique_ptr<report::Report> report_;
  report::RankTimes rank_times_{session_};
  std::string schedule_;  ///< in words
  exec::Trace trace_;     ///< on in the step that the deck names, until it is written
  std::optional<std::int64_t> resumed_at_;
  BadSteps bad_steps_;
  double resume_seconds_ = 0;  ///< that reading the checkpoint took
  std::int64_t step_ = 0;      ///< optimizer steps done
  std::int64_t tokens_ = 0;
  std::int64_t sample_ = 0;                  ///< the next step's first
  std::optional<std::string> resumed_from_;  ///< the checkpoint
  std::vector<std::string> damaged_;         ///< own checkpoints that proved damaged at the start
  std::string set_aside_;                    ///< where an earlier run's checkpoints are now
  std::string origin_;                       ///< RunState::origin
  std::vector<ckpt::DataFile> saved_data_;   ///< what that checkpoint says
  std::int64_t persistent_bytes_ = 0;
  std::int64_t shared_before_ = 0;  ///< bytes that MPI shares
  report::Summary::About about_;    ///< what the plan and the compute-only step say of a step
  runtime::PlannedMemory memory_;
  bool background_ = false;  ///< saves on the way are in the background
  double flops_per_token_ = 0;
  double start_ = 0;
  /// Seconds of the longest of each so far, on any rank.
  double longest_step_ = 0;
  std::optional<double> longest_validation_;
  std::unique_ptr<Saver> saver_;  ///< last: its threads read the state
};

}  // namespace weft::train
