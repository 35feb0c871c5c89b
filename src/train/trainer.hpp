// Trains a model, for `weft train`: the loop over steps.
#pragma once

#include <cstdint>
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
  Trainer(const Deck& deck, comm::World& world, std::unique_ptr<data::BatchSource> batches = nullptr,
          std::function<void()> on_directory = {});
  ~Trainer();

  /// Runs until run.steps, until run.walltime leaves no time for what comes next, or until a rank is asked to
  /// stop; validates, saves and reports as the deck says.
  Outcome run();

  // For tests, and as the steps of run().
  runtime::ModelState& state() { return *programs_.state; }
  const plan::Plan& plan() const { return programs_.train->plan(); }
  exec::Capture capture() const { return programs_.train->capture(); }
  std::int64_t step() const { return at_.step; }
  /// One optimizer step. The metrics are the same on every rank.
  report::StepMetrics train_step();
  /// Runs the validation; the result is empty without data.valid.
  std::optional<report::StepMetrics> validate();

 private:
  /// What the run executes, and what that works on.
  struct Programs {
    std::unique_ptr<exec::Executor> train, evaluate;  ///< evaluate: null without data.valid
    std::unique_ptr<runtime::ModelState> state;
    std::unique_ptr<Validation> validation;        ///< null without data.valid
    std::unique_ptr<compare::ValueHashes> hashes;  ///< with debug.hash_every
  };
  /// What is known of the run before its first step.
  struct Planned {
    report::Summary::About about;  ///< what the plan and the compute-only step say of a step
    runtime::PlannedMemory memory;
    std::string schedule;              ///< in words
    bool saves_in_background = false;  ///< there is room for a copy of the state
    std::int64_t persistent_bytes = 0;
    std::int64_t shared_before = 0;  ///< bytes that MPI shares between processes
    double flops_per_token = 0;
  };

  void build();
  void measure_compute_only();
  void begin_saving();
  /// The lines that a run's log begins with.
  void tell_start(const std::string& set_aside);
  /// Tokens, targets and positions, and the step block.
  void upload_inputs(const StepBlock& block);
  report::StepMetrics collect(const exec::Times& times, double step_seconds);
  std::int64_t resident_bytes() const;
  /// Collective: reports how long each rank has taken since the last call.
  void tell_ranks();
  /// After a step that the run goes on behind. False when the last step's checkpoint is not there.
  bool validate_and_save(bool goes_on);
  bool save_if_due();
  /// Checkpoints from here on describe the token files so; does nothing without a description.
  void describe_data(std::optional<std::vector<ckpt::DataFile>> described);
  StillToCome still_to_come() const;
  /// Before run.steps: saves, and tells why.
  Outcome end_early(const std::string& why);
  [[noreturn]] void fail_unsaved(const std::string& why) const;
  bool hashes_after(std::int64_t step) const;
  bool validates_after(std::int64_t step) const;
  bool saves_after(std::int64_t step) const;

  Deck deck_;
  runtime::Session session_;
  Ending ending_;
  SharedDirectory directory_;
  RunData data_;
  runtime::MicrobatchBuffers buffers_;
  Programs programs_;
  Planned planned_;
  Start start_;
  Position at_;
  report::StepNews news_;  ///< of all ranks, at the end of the last step
  RunTrace trace_;
  report::RankTimes rank_times_{session_};
  std::unique_ptr<report::Report> report_;
  std::unique_ptr<Saver> saver_;  ///< behind what its threads read: the state
  std::optional<BadNumbers> bad_numbers_;
};

}  // namespace weft::train
