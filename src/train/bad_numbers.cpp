// What a run does about a step whose loss or gradient norm is not finite.
#include "base/check.hpp"
#include "base/log.hpp"
#include "comm/agree.hpp"
#include "train/checkpointing.hpp"
#include "train/first_nonfinite.hpp"
#include "train/trainer.hpp"

namespace weft::train {

/// All ranks have the same loss and norm; rank 0 speaks.
bool Trainer::goes_on_after(const report::StepMetrics& metrics) {
  const std::optional<Nonfinite> what = bad_steps_.after(metrics);
  if (!what) return true;
  if (deck_.debug.nan == NanSearch::locate) locate_nonfinite(metrics);
  const bool speaks = session_.rank() == 0;
  const std::string bad = bad_steps_.describe(metrics);
  switch (*what) {
    case Nonfinite::stop:
      saver_->finish();  // of a state that was good
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

/// The state is as before the step, and the inputs are still there: it runs with the same bits.
void Trainer::locate_nonfinite(const report::StepMetrics& metrics) {
  FirstNonfinite first(session_, plan());
  train_->run(exec::Run::full, nullptr, &first, [this] { saver_->before_update(); });
  const std::string found = first.finish();
  if (session_.rank() == 0) log::warn("step {}: {}", metrics.step, found);
}

/// The data that led here are left out, because they would lead here again.
void Trainer::roll_back() {
  saver_->finish();  // it reads the state
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
