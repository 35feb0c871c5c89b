// The parts of a run's start that look at its data and at its directory.
#include <span>

#include "base/check.hpp"
#include "train/agree.hpp"
#include "train/checkpointing.hpp"
#include "train/shared_directory.hpp"
#include "train/starting_point.hpp"
#include "train/trainer.hpp"

namespace weft::train {
namespace {

/// A run that is done waits so long for the last files to be verified.
constexpr double patience_s = 60;

}  // namespace

ckpt::RunState Trainer::description() {
  ckpt::RunState run = describe_run(deck_, session_.world());
  run.origin = origin_;
  run.data = data_;
  return run;
}

/// From here on the directory is this run's.
void Trainer::make_directory() {
  agree(session_.world(), [&] {
    if (!directory_) return;
    directory_->write(print_deck(deck_));
    if (!resumed_at_) set_aside_ = set_earlier_aside(deck_);
  });
  check_directory();
}

/// Before anything is read from it, and once more where this run has made it.
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
    case DataCheck::State::under_way: return;
    case DataCheck::State::failed: agree(session_.world(), [&] { data_check_->rethrow(); }); return;
    case DataCheck::State::done: break;
  }
  saver_->set_data(data_check_->verified());
  data_check_.reset();
}

void Trainer::finish_data_check() {
  if (!data_check_) return;
  data_check_->wait(patience_s);
  news_.data_check = static_cast<double>(data_check_->state());
  session_.world().all_reduce_max(std::span(&news_.data_check, 1));
  look_at_data_check();
  if (data_check_) report_->note("the run was too short to verify the checksums of all token files");
}

}  // namespace weft::train
