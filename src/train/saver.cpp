#include "train/saver.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/device.hpp"
#include "base/log.hpp"

namespace weft::train {

Saver::Saver(const Deck& deck, runtime::Session& session, runtime::ModelState& state, report::Report& report,
             ckpt::RunState run, bool background)
    : deck_(deck), session_(session), state_(state), report_(report), run_(std::move(run)) {
  if (background) copy_ = std::make_unique<runtime::StateCopy>(state);
}

void Saver::begin(const Position& at) {
  if (!copy_) {
    save(at);
    return;
  }
  if (saved_ == at.step || (under_way_ && step_ == at.step)) return;
  finish();
  const double begin = seconds_now();
  copy_->start();
  start(at, copy_->slices(), [this] { copy_->check(); });
  pause_ = seconds_now() - begin;
}

bool Saver::save(const Position& at) {
  if (copy_ && !device_is_host()) {  // its memory is there already; that of a snapshot is planned by nobody
    begin(at);
    finish();
    return saved_ == at.step;
  }
  finish();
  if (saved_ == at.step) return true;
  const double begin = seconds_now();
  runtime::ModelState::Snapshot snapshot;
  std::function<void()> await_slices;
  try {
    snapshot = state_.snapshot();
  } catch (const std::bad_alloc&) {
    snapshot.slices = state_.own_slices();
    await_slices = [] {
      throw Error(ExitCode::environment, "the host has no memory for a copy of the state");
    };
  }
  start(at, snapshot.slices, await_slices);
  pause_ = seconds_now() - begin;
  advance(ckpt::WaitForEnd::yes);
  return saved_ == at.step;
}

void Saver::start(const Position& at, std::vector<ckpt::StateSlice> slices,
                  std::function<void()> await_slices) {
  step_ = at.step;
  begun_ = seconds_now();
  under_way_ = begin_save(deck_, session_, run_, {state_.units(), std::move(slices), std::move(await_slices)},
                          at, keeps_earlier_ ? Earlier::stay : Earlier::as_deck);
}

double Saver::seconds_to_end(double whole) const {
  return under_way_ ? std::max(0.0, whole - (seconds_now() - begun_)) : 0;
}

void Saver::before_update() {
  if (!under_way_ || !copy_) return;
  const double begin = seconds_now();
  copy_->wait();
  pause_ += seconds_now() - begin;
}

void Saver::advance() {
  if (under_way_) advance(ckpt::WaitForEnd::no);
}

void Saver::finish() {
  if (!under_way_) return;
  before_update();
  advance(ckpt::WaitForEnd::yes);
}

void Saver::advance(ckpt::WaitForEnd wait) {
  const double begin = seconds_now();
  const bool over = under_way_->advance(wait);
  pause_ += seconds_now() - begin;
  if (!over) return;
  const ckpt::SaveReport report = under_way_->report();
  under_way_.reset();
  tell(report);
}

/// The end of the warning about a save that failed: it says which checkpoint there still is.
std::string Saver::what_is_left() const {
  return newest_ ? fmt::format("the newest checkpoint is still {}", *newest_)
                 : std::string("this run has no checkpoint yet");
}

void Saver::tell(const ckpt::SaveReport& report) {
  std::array<double, 4> most{report.seconds, pause_, report.write_seconds, report.read_back_seconds};
  session_.world().all_reduce_max(most);
  if (report.ok) {
    saved_ = step_;
    newest_ = report.path;
    longest_ = std::max(longest_.value_or(0), most[0]);
  }
  report::SaveMetrics m;
  m.step = step_;
  m.ok = report.ok;
  m.bytes = report.bytes;
  m.seconds = most[0];
  m.pause_s = most[1];
  m.write_s = most[2];
  m.verify_s = most[3];
  report_.saved(m, report.path);
  if (!report.reason.empty() && session_.world().rank() == 0)
    log::warn("checkpoint of step {}: {}{}", step_, report.reason, report.ok ? "" : "; " + what_is_left());
}

}  // namespace weft::train
