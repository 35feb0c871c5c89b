// The parts of the trainer that end a run before run.steps: because its time is up, or because it was asked
// to.
#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "train/starting_point.hpp"
#include "train/trainer.hpp"

namespace weft::train {

/// Seconds from now until another step, its validation if one is due, and a save would be done, on this rank.
/// Each is expected to take as long as the longest so far, and the step twice as long. What has not been
/// timed yet is guessed: a validation's round takes as long as a training step's, and a save writes 100 MB/s.
double Trainer::seconds_to_next_save() const {
  double seconds = 2 * longest_step_;
  if (validation_ && validates_after(step_ + 1)) {
    const double rounds = std::ceil(static_cast<double>(valid_->microbatches()) / session_.ranks());
    const auto step_rounds = static_cast<double>(accumulation(deck_, session_.ranks()));
    seconds += longest_validation_.value_or(longest_step_ * rounds / step_rounds);
  }
  return seconds + saver_->longest_seconds().value_or(static_cast<double>(state_->own_bytes()) / 1e8);
}

/// Whether run.walltime is too near for another step; all ranks get the same answer.
bool Trainer::out_of_time() {
  if (deck_.run.walltime <= 0) return false;
  double until = seconds_now() - start_ + seconds_to_next_save();
  session_.world().all_reduce_max(std::span(&until, 1));
  return until > deck_.run.walltime;
}

/// Ends the run with an error when the last save failed. Such a run is not unfinished but stuck: a job that
/// starts it again from an older checkpoint would only come here again.
void Trainer::fail_unsaved(const std::string& why) const {
  if (session_.rank() != 0) throw Error(ExitCode::failure, "");
  throw Error(
      ExitCode::failure,
      fmt::format(
          "{}, but step {} could not be saved (see the warning above); make room in {}, and start again from "
          "the newest checkpoint there",
          why, step_, checkpoints_dir(deck_)));
}

std::string Trainer::reason_to_stop() {
  if (news_.stop_request > 0) return stop_.text(news_.stop_request);
  return out_of_time() ? "run.walltime is near" : "";
}

Outcome Trainer::end_early(const std::string& why) {
  mark_verified();
  if (step_ > 0 && !saver_->save(position())) fail_unsaved(why);
  saver_->finish();
  report_->note(fmt::format("{}: stopped after step {} of {}; start again with the same deck to continue",
                            why, step_, deck_.run.steps));
  return job::StopRequest::by_file(news_.stop_request) ? Outcome::stopped : Outcome::unfinished;
}

}  // namespace weft::train
