// Trains a model for `weft train`. This is the loop over steps.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "compare/value_hashes.hpp"
#include "data/batch_source.hpp"
#include "deck/deck.hpp"
#include "report/report.hpp"
#include "report/slowest_rank.hpp"
#include "runtime/inputs.hpp"
#include "runtime/model_state.hpp"
#include "runtime/planned_memory.hpp"
#include "train/bad_numbers.hpp"
#include "train/ending.hpp"
#include "train/run_data.hpp"
#include "train/run_trace.hpp"
#include "train/saver.hpp"
#include "train/shared_directory.hpp"
#include "train/start.hpp"
#include "train/validation.hpp"

namespace weft::train {

class Trainer {
 public:
  /// Collective. Opens the data, plans, checks that all ranks made the same plan, allocates everything,
  /// measures the plan's compute-only step, and initialises the state or loads the checkpoint that
  /// checkpoint.resume names. `batches` replaces the deck's training data (golden tests feed PyTorch's
  /// tokens). `on_directory` is called once the run directory is there and all ranks see the same one.
  /// `on_error` is called with what then ends the constructor, before anything is taken down; it may throw
  /// another exception instead.
  Trainer(const Deck& deck, comm::World& world, std::unique_ptr<data::BatchSource> batches = nullptr,
          std::function<void()> on_directory = {},
          const std::function<void(const std::exception&)>& on_error = {});
  ~Trainer();

  /// Runs until run.steps, until run.walltime leaves no time for what comes next, or until a rank is asked to
  /// stop; validates, saves and reports as the deck says.
  Outcome run();

  // These are parts of run(), and what tests look at.
  runtime::ModelState& state() { return *programs_.state; }
  const plan::Plan& plan() const { return programs_.train->plan(); }
  exec::Capture capture() const { return programs_.train->capture(); }
  std::int64_t step() const { return at_.step; }
  /// One optimizer step. The metrics are the same on every rank.
  report::StepMetrics train_step();
  /// Does what the deck wants behind a step with bad numbers (BadNumbers::goes_on_after).
  bool goes_on_after(const report::StepMetrics& metrics) { return bad_numbers_->goes_on_after(metrics); }
  /// Runs the validation; the result is empty without data.valid.
  std::optional<report::StepMetrics> validate();

 private:
  /// What the run executes, and the state that this works on.
  struct Programs {
    std::unique_ptr<exec::Executor> train, evaluate;  ///< `evaluate` is null without data.valid
    std::unique_ptr<runtime::ModelState> state;
    std::unique_ptr<Validation> validation;        ///< null without data.valid
    std::unique_ptr<compare::ValueHashes> hashes;  ///< null without debug.hash_every
  };
  /// What is known of the run before its first step.
  struct Planned {
    report::Summary::About about;  ///< how long the plan and the compute-only step say a step takes
    runtime::PlannedMemory memory;
    std::string schedule;              ///< the schedule in words
    std::string float8;                ///< that products in Float8 gain nothing here, if so
    bool saves_in_background = false;  ///< whether there is memory for a copy of the state
    /// The planned arena of the training step, and the storages of all plans: of the rank that has most.
    std::int64_t arena_peak_bytes = 0, persistent_bytes = 0;
    std::int64_t shared_before = 0;  ///< bytes that MPI shares between processes
    double flops_per_token = 0;
  };

  void start();
  /// Whether the checkpoint of its own that the run goes on from has all steps done.
  bool is_done() const;
  void build();
  void measure_compute_only();
  void begin_saving();
  /// Writes the lines that a run's log begins with.
  void tell_start(const std::string& set_aside);
  /// Brings tokens, targets and positions, and the step block, to the plan's inputs.
  void upload_inputs(const StepBlock& block);
  report::StepMetrics collect(const exec::Times& times, double step_seconds);
  std::int64_t resident_bytes();
  /// Collective: reports how long each rank has taken since the last call.
  void tell_ranks();
  /// Does what is due after a step; `goes_on` is false when the run has gone back to an earlier one. Returns
  /// false when the last step's checkpoint is not there.
  bool validate_and_save(bool goes_on);
  bool save_if_due();
  /// Sets how checkpoints describe the token files from here on; does nothing without a description.
  void describe_data(std::optional<std::vector<ckpt::DataFile>> described);
  StillToCome still_to_come() const;
  /// Ends the run before run.steps: saves, and tells why.
  Outcome end_early(const std::string& why);
  [[noreturn]] void fail_unsaved(const std::string& why) const;
  bool hashes_after(std::int64_t step) const;
  bool validates_after(std::int64_t step) const;
  bool saves_after(std::int64_t step) const;

  Deck deck_;
  runtime::Session session_;
  std::int64_t device_bytes_ = 0;  ///< on a GPU: what resident_bytes() saw last
  int device_looks_ = 0;           ///< and how often it was asked
  Ending ending_;
  SharedDirectory directory_;
  RunData data_;
  runtime::MicrobatchBuffers buffers_;
  Programs programs_;
  Planned planned_;
  Start start_;
  Position at_;
  bool was_bad_ = false;     ///< whether the last step was one with bad numbers
  bool save_waits_ = false;  ///< whether a save was due at a bad step
  report::StepNews news_;    ///< what all ranks reported at the end of the last step
  RunTrace trace_;
  report::RankTimes rank_times_{session_};
  std::unique_ptr<report::Report> report_;
  std::unique_ptr<Saver> saver_;  ///< declared after the state, which its threads read
  std::optional<BadNumbers> bad_numbers_;
};

}  // namespace weft::train
