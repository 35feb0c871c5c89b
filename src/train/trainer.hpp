// Trains a model, for `weft train`: the loop over steps.
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

/// How a run ends. `finished`: it has done all of run.steps. `unfinished`: start it again to go on.
/// `stopped`: it can go on, too, but a user has to start it.
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

  // Parts of run(), and what tests look at.
  runtime::ModelState& state() { return *state_; }
  const plan::Plan& plan() const { return train_->plan(); }
  exec::Capture capture() const { return train_->capture(); }
  std::int64_t step() const { return step_; }
  /// One optimizer step. The metrics are the same on every rank.
  report::StepMetrics train_step();
  /// Runs the validation; the result is empty without data.valid.
  std::optional<report::StepMetrics> validate();

 private:
  void open_data();
  void build();
  void measure_compute_only();
  /// Sets the state; returns a line about where it comes from that the user should see, if any.
  std::string initialise_or_resume();
  std::string initialise();
  /// The description of this run that goes into its checkpoints.
  ckpt::RunState description();
  void make_directory();
  void check_directory();
  void start_data_check();
  /// Acts on what all ranks reported with the last step (news_). It throws the mistake that a rank has found
  /// in a token file; when all ranks are done, it notes for later checkpoints that the files are verified.
  void look_at_data_check();
  /// Which wait for the data check is meant. The last save is not put off for files that take long, but small
  /// ones are verified by then.
  enum class Patience : std::uint8_t { before_last_save, after_last_save };
  /// Collective: waits for the end of the check, and acts on its result.
  void finish_data_check(Patience patience);
  /// How many seconds finish_data_check() may wait.
  double seconds_of(Patience patience) const;
  /// Call it before a save: it lets the checkpoint name the token files that have been verified so far.
  void mark_verified();
  /// Brings tokens, targets and positions, and the step block, to the plan's inputs.
  void upload_inputs(const StepBlock& block);
  report::StepMetrics collect(const exec::Times& times, double step_seconds);
  std::int64_t resident_bytes() const;
  void start_trace();
  /// Writes the trace of the step that the deck names, with what followed the step; does nothing after other
  /// steps.
  void write_trace();
  /// Collective: reports how long each rank has taken since the last call.
  void tell_ranks();
  Position position() const;
  bool save_if_due();
  /// Ends the run before run.steps: saves, and tells why.
  Outcome end_early(const std::string& why);
  [[noreturn]] void fail_unsaved(const std::string& why) const;
  /// Whether the run goes on behind the step; false when it has gone back to an earlier one. Throws when the
  /// run stops here.
  bool goes_on_after(const report::StepMetrics& metrics);
  void locate_nonfinite(const report::StepMetrics& metrics);
  void roll_back();
  bool hashes_after(std::int64_t step) const;
  bool validates_after(std::int64_t step) const;
  bool saves_after(std::int64_t step) const;
  double seconds_to_next_save() const;
  bool out_of_time();
  /// Why the run must end before the next step; empty when nothing asks for it. All ranks get the same
  /// answer.
  std::string reason_to_stop();

  Deck deck_;
  runtime::Session session_;
  std::optional<job::RunDirectory> directory_;  ///< on rank 0 only
  std::function<void()> on_directory_;
  job::StopRequest stop_;
  report::StepNews news_;  ///< what all ranks reported at the end of the last step
  runtime::MicrobatchBuffers buffers_;
  std::unique_ptr<data::BatchSource> batches_;
  std::optional<data::ValidationSource> valid_;
  std::vector<data::TokenFile> files_;     ///< those of data.train, then those of data.valid
  std::vector<ckpt::DataFile> data_;       ///< how checkpoints describe these files
  std::unique_ptr<DataCheck> data_check_;  ///< null when the check is over, or there are no files
  std::unique_ptr<exec::Executor> train_, evaluate_;
  std::unique_ptr<runtime::ModelState> state_;
  std::unique_ptr<Validation> validation_;
  std::unique_ptr<compare::ValueHashes> hashes_;  ///< null without debug.hash_every
  std::unique_ptr<report::Report> report_;
  report::RankTimes rank_times_{session_};
  std::string schedule_;  ///< the schedule in words
  exec::Trace trace_;     ///< records from the step that the deck names until it is written
  std::optional<std::int64_t> resumed_at_;
  BadSteps bad_steps_;
  double resume_seconds_ = 0;  ///< seconds that reading the checkpoint took
  std::int64_t step_ = 0;      ///< optimizer steps done
  std::int64_t tokens_ = 0;
  std::int64_t sample_ = 0;                  ///< index of the next step's first sample
  std::optional<std::string> resumed_from_;  ///< path of the checkpoint
  std::vector<std::string> damaged_;         ///< the run's own checkpoints that proved damaged at the start
  std::string set_aside_;                    ///< where an earlier run's checkpoints are now
  std::string origin_;                       ///< RunState::origin
  std::vector<ckpt::DataFile> saved_data_;   ///< how that checkpoint describes its files
  std::int64_t persistent_bytes_ = 0;
  std::int64_t shared_before_ = 0;  ///< bytes that MPI shares
  report::Summary::About about_;    ///< how long the plan and the compute-only step say a step takes
  runtime::PlannedMemory memory_;
  bool background_ = false;  ///< whether saves on the way run in the background
  double flops_per_token_ = 0;
  double start_ = 0;
  /// Seconds of the longest step and the longest validation so far, on any rank.
  double longest_step_ = 0;
  std::optional<double> longest_validation_;
  std::unique_ptr<Saver> saver_;  ///< the last member, because its threads read the state
};

}  // namespace weft::train
