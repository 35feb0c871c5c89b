// `weft train`: the loop over steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ckpt/state.hpp"
#include "data/batch_source.hpp"
#include "deck/deck.hpp"
#include "exec/trace.hpp"
#include "train/bad_steps.hpp"
#include "train/inputs.hpp"
#include "train/metrics.hpp"
#include "train/model_state.hpp"
#include "train/planned_memory.hpp"
#include "train/report.hpp"
#include "train/validation.hpp"
#include "train/value_hashes.hpp"

namespace weft::train {

enum class Outcome : std::uint8_t { finished, out_of_time };

class Trainer {
 public:
  /// Collective. Opens the data, plans, checks that all ranks made the same plan, allocates everything,
  /// measures the plan's compute-only step, and initialises the state or loads the checkpoint that
  /// checkpoint.resume names. `batches` replaces the deck's training data (golden tests feed PyTorch's
  /// tokens).
  Trainer(const Deck& deck, comm::World& world, std::unique_ptr<data::BatchSource> batches = nullptr);
  ~Trainer();

  /// Runs until run.steps, or until run.walltime leaves no time for what comes next; validates, saves and
  /// reports as the deck says.
  Outcome run();

  // For tests, and as the steps of run().
  ModelState& state() { return *state_; }
  const plan::Plan& plan() const { return train_->plan(); }
  exec::Capture capture() const { return train_->capture(); }
  std::int64_t step() const { return step_; }
  /// One optimizer step. The metrics are the same on every rank.
  StepMetrics train_step();
  /// Empty without data.valid.
  std::optional<StepMetrics> validate();

 private:
  void open_data();
  void build();
  void measure_compute_only();
  /// Returns a line about a resumed run that its user should see, if any.
  std::string initialise_or_resume();
  /// Collective: from the checkpoint, or else from the initial weights.
  ckpt::RunState start_from(const std::optional<std::string>& checkpoint);
  /// Tokens, targets and positions, and the step block.
  void upload_inputs();
  StepMetrics collect(const exec::Times& times, double step_seconds);
  std::int64_t resident_bytes() const;
  void start_trace();
  /// Of the step that the deck names, with what follows it; else nothing.
  void write_trace();
  /// False when the checkpoint is not there; on all ranks alike, and after a warning.
  bool save();
  [[noreturn]] void fail_unsaved() const;
  /// Whether the run goes on behind the step; false when it has gone back to an earlier one. Throws when it
  /// stops here.
  bool goes_on_after(const StepMetrics& metrics);
  void locate_nonfinite(const StepMetrics& metrics);
  void roll_back();
  bool hashes_after(std::int64_t step) const;
  bool validates_after(std::int64_t step) const;
  bool saves_after(std::int64_t step) const;
  double seconds_to_next_save() const;
  bool out_of_time();

  Deck deck_;
  Session session_;
  MicrobatchBuffers buffers_;
  std::unique_ptr<data::BatchSource> batches_;
  std::optional<data::ValidationSource> valid_;
  std::unique_ptr<exec::Executor> train_, evaluate_;
  std::unique_ptr<ModelState> state_;
  std::unique_ptr<Validation> validation_;
  std::unique_ptr<ValueHashes> hashes_;  ///< with debug.hash_every
  std::unique_ptr<Report> report_;
  std::string schedule_;  ///< in words
  exec::Trace trace_;     ///< on in the step that the deck names, until it is written
  std::optional<std::int64_t> resumed_at_;
  BadSteps bad_steps_;
  std::int64_t step_ = 0;  ///< optimizer steps done
  std::int64_t tokens_ = 0;
  std::int64_t sample_ = 0;  ///< the next step's first
  std::int64_t saved_step_ = -1;
  std::optional<std::string> last_checkpoint_;  ///< that was saved, or that the run started from
  std::int64_t persistent_bytes_ = 0;
  std::int64_t shared_before_ = 0;  ///< bytes that MPI shares
  Summary::About about_;            ///< what the plan and the compute-only step say of a step
  PlannedMemory memory_;
  double flops_per_token_ = 0;
  double start_ = 0;
  /// Seconds of the longest of each so far, on any rank.
  double longest_step_ = 0;
  std::optional<double> longest_validation_, longest_save_;
};

}  // namespace weft::train
