// The parts of the trainer that look, at a run's start, at its data and at its directory.
#include <algorithm>
#include <span>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "comm/agree.hpp"
#include "train/checkpointing.hpp"
#include "train/shared_directory.hpp"
#include "train/starting_point.hpp"
#include "train/trainer.hpp"

namespace weft::train {
namespace {

// The most seconds that a run which has done all its steps waits until the last token files are verified.
constexpr double most_before_save = 1;
constexpr double most_after_save = 60;

}  // namespace

ckpt::RunState Trainer::description() {
  ckpt::RunState run = describe_run(deck_, session_.world());
  run.origin = origin_;
  run.data = data_;
  return run;
}

/// Makes the directory this run's own: makes it where there is none, writes the deck, and moves an earlier
/// run's checkpoints away.
void Trainer::make_directory() {
  comm::agree(session_.world(), [&] {
    if (!directory_) return;
    directory_->write(print_deck(deck_));
    if (!resumed_at_) set_aside_ = set_earlier_aside(deck_);
  });
  check_directory();
}

/// Checks that all ranks see rank 0's directory. This is asked before anything is read from it, and again
/// when this run has made it.
void Trainer::check_directory() {
  const bool is_there =
      check_shared_directory(session_.world(), deck_, directory_ ? directory_->mark() : std::string());
  if (is_there && on_directory_) on_directory_();
}

void Trainer::start_data_check() {
  if (!files_.empty())
    data_check_ = std::make_unique<DataCheck>(session_.world(), files_, data_, saved_data_);
}

void Trainer::look_at_data_check() {
  if (!data_check_) return;
  switch (static_cast<DataCheck::State>(news_.data_check)) {
    case DataCheck::State::under_way: data_check_->tell(static_cast<std::int64_t>(news_.data_left)); return;
    case DataCheck::State::failed: comm::agree(session_.world(), [&] { data_check_->rethrow(); }); return;
    case DataCheck::State::done: break;
  }
  mark_verified();
  data_check_.reset();
}

void Trainer::mark_verified() {
  if (data_check_) saver_->set_data(data_check_->verified());
}

/// The most seconds that finish_data_check() may wait. The other ranks wait in a collective meanwhile, and
/// the job may have to end.
double Trainer::seconds_of(Patience patience) const {
  const bool before = patience == Patience::before_last_save;
  double seconds = before ? most_before_save : most_after_save;
  if (deck_.run.collective_timeout > 0) seconds = std::min(seconds, deck_.run.collective_timeout / 2);
  const double until = seconds_now() - start_ + (before ? seconds_to_next_save() : 0);
  if (deck_.run.walltime > 0) seconds = std::min(seconds, deck_.run.walltime - until);
  return seconds;
}

void Trainer::finish_data_check(Patience patience) {
  if (!data_check_) return;
  data_check_->wait(seconds_of(patience));
  news_.data_check = static_cast<double>(data_check_->state());
  session_.world().all_reduce_max(std::span(&news_.data_check, 1));
  look_at_data_check();
  if (data_check_ && patience == Patience::after_last_save)
    report_->note("the run was too short to verify the checksums of all token files");
}

}  // namespace weft::train
