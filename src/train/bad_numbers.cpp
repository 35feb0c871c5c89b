#include "train/bad_numbers.hpp"

#include <optional>
#include <string>

#include "base/check.hpp"
#include "base/log.hpp"
#include "comm/agree.hpp"
#include "train/checkpointing.hpp"
#include "train/first_nonfinite.hpp"
#include "train/start.hpp"

namespace weft::train {

/// Does what the deck wants after a step with bad numbers. All ranks have the same loss and norm, so they do
/// the same; rank 0 logs it.
bool BadNumbers::goes_on_after(const report::StepMetrics& metrics) {
  const std::optional<Nonfinite> what = bad_steps_.after(metrics);
  if (!what) return true;
  if (run_.deck.debug.nan == NanSearch::locate) locate(metrics);
  const bool speaks = run_.session.rank() == 0;
  const std::string bad = bad_steps_.describe(metrics);
  switch (*what) {
    case Nonfinite::stop:
      run_.saver.finish();  // a save that is under way has a state from before the bad step
      throw Error(ExitCode::failure, speaks ? fmt::format("{} (the run has diverged); {}", bad,
                                                          bad_steps_.advice(run_.saver.newest()))
                                            : "");
    case Nonfinite::skip:
      if (speaks) log::warn("{}; its update is left out", bad);
      return true;
    case Nonfinite::rollback: break;
  }
  roll_back();
  if (speaks)
    log::warn("{}; back to step {}, {}; it goes on with sample {}", bad, run_.at.step,
              run_.saver.newest().value_or("the initial weights"), run_.at.sample);
  return false;
}

/// Runs the step once more to find where the bad numbers begin. The state is as before the step, and the
/// inputs are still there, so it has the same bits, unless a device erred. Then the step may be a good one
/// now, and its update is left out all the same, as the metrics and the log say.
void BadNumbers::locate(const report::StepMetrics& metrics) {
  run_.hold_update();
  FirstNonfinite first(run_.session, run_.step.plan());
  run_.step.run(exec::Run::full, nullptr, &first, [this] { run_.saver.before_update(); });
  const std::string found = first.finish();
  if (run_.session.rank() == 0) log::warn("step {}: {}", metrics.step, found);
}

/// Goes back to the last checkpoint. The data that led here are left out, because they would lead here again.
void BadNumbers::roll_back() {
  run_.saver.finish();  // a save that is under way reads the state
  const std::int64_t next = run_.at.sample;
  const auto& checkpoint = run_.saver.newest();
  ckpt::RunState loaded;
  if (checkpoint) {
    loaded = load_checkpoint(*checkpoint, run_.deck, run_.session.world(), run_.state);
  } else {
    initialise(run_.deck, run_.start.weights, run_.session.world(), run_.state);
  }
  run_.at = {loaded.step, loaded.tokens, next};
  run_.saver.gone_back();
  comm::agree(run_.session.world(), [&] { run_.report.go_back(run_.at.step); });
}

}  // namespace weft::train
