// The trainer's answer to a step whose loss or gradient norm is not finite.
#include "base/check.hpp"
#include "base/log.hpp"
#include "comm/agree.hpp"
#include "train/checkpointing.hpp"
#include "train/first_nonfinite.hpp"
#include "train/trainer.hpp"

namespace weft::train {

/// Does what the deck wants after a step with bad numbers. All ranks have the same loss and norm, so they do
/// the same; rank 0 logs it.
bool Trainer::goes_on_after(const report::StepMetrics& metrics) {
  const std::optional<Nonfinite> what = bad_steps_.after(metrics);
  if (!what) return true;
  if (deck_.debug.nan == NanSearch::locate) locate_nonfinite(metrics);
  const bool speaks = session_.rank() == 0;
  const std::string bad = bad_steps_.describe(metrics);
  switch (*what) {
    case Nonfinite::stop:
      saver_->finish();  // saves a state from before the bad step
      throw Error(ExitCode::failure, speaks ? fmt::format("{} (the run has diverged); {}", bad,
                                                          bad_steps_.advice(saver_->newest()))
                                            : "");
    case Nonfinite::skip:
      if (speaks) log::warn("{}; its update is left out", bad);
      return true;
    case Nonfinite::rollback: break;
  }
  roll_back();
  if (speaks)
    log::warn("{}; back to step {}, {}; it goes on with sample {}", bad, step_,
              saver_->newest().value_or("the initial weights"), sample_);
  return false;
}

/// Runs the step once more to find where the bad numbers begin. The state is as before the step, and the
/// inputs are still there, so it has the same bits.
void Trainer::locate_nonfinite(const report::StepMetrics& metrics) {
  FirstNonfinite first(session_, plan());
  train_->run(exec::Run::full, nullptr, &first, [this] { saver_->before_update(); });
  const std::string found = first.finish();
  if (session_.rank() == 0) log::warn("step {}: {}", metrics.step, found);
}

/// Goes back to the last checkpoint. The data that led here are left out, because they would lead here again.
void Trainer::roll_back() {
  saver_->finish();  // the save that is under way reads the state
  const std::int64_t next = sample_;
  const auto& checkpoint = saver_->newest();
  ckpt::RunState run;
  if (checkpoint) {
    run = load_checkpoint(*checkpoint, deck_, session_.world(), *state_);
  } else {
    initialise();
  }
  step_ = run.step;
  tokens_ = run.tokens;
  sample_ = next;
  saver_->gone_back();
  comm::agree(session_.world(), [&] { report_->go_back(step_); });
}

}  // namespace weft::train
