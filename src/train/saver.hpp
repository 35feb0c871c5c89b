// The run's checkpoints: one save at a time, in the background where there is room for a copy of the state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/save.hpp"
#include "deck/deck.hpp"
#include "report/report.hpp"
#include "runtime/state_copy.hpp"
#include "train/checkpointing.hpp"

namespace weft::train {

/// All calls are collective but before_update(). A save that fails costs a warning and that checkpoint. All
/// that is passed in lives as long as this.
class Saver {
 public:
  /// `run` is what each checkpoint says of the run, but for the position. `background`: takes the copy's
  /// memory now.
  Saver(const Deck& deck, runtime::Session& session, runtime::ModelState& state, report::Report& report,
        ckpt::RunState run, bool background);

  /// Saves the state as it is, unless that was done. In the background: begins, after the end of the save
  /// that is under way, if one is.
  void begin(const Position& at);
  /// The same, and waits for the end. False when the checkpoint is not there, on all ranks alike.
  bool save(const Position& at);
  /// Before the state changes: waits until it is copied.
  void before_update();
  /// After a step: takes a save that is under way further, without waiting for it.
  void advance();
  /// Waits for the end of what is under way.
  void finish();
  /// What later checkpoints say of the run's data.
  void set_data(std::vector<ckpt::DataFile> data) { run_.data = std::move(data); }
  /// There is no need to save this state again: it was loaded from a checkpoint of the run's own.
  void set_saved(std::int64_t step, const std::string& path) {
    saved_ = step;
    newest_ = path;
  }
  /// The state was loaded from this checkpoint of another run: where to go back to, and no more.
  void set_start(const std::string& path) { newest_ = path; }
  /// The path of the last checkpoint that was saved or loaded; empty before there is one.
  const std::optional<std::string>& newest() const { return newest_; }
  /// The run has gone back to newest(), with other data ahead: what it comes to is no state that was saved.
  void gone_back() { saved_ = -1; }
  /// Seconds from begin to end of the longest save so far, on any rank.
  std::optional<double> longest_seconds() const { return longest_; }

 private:
  void start(const Position& at, std::vector<ckpt::StateSlice> slices,
             std::function<void()> await_slices = {});
  void advance(ckpt::Wait wait);
  void tell(const ckpt::SaveReport& report);
  std::string what_is_left() const;

  const Deck& deck_;
  runtime::Session& session_;
  runtime::ModelState& state_;
  report::Report& report_;
  ckpt::RunState run_;
  std::unique_ptr<runtime::StateCopy> copy_;
  std::unique_ptr<ckpt::Save> under_way_;
  std::int64_t step_ = -1;   ///< of the save that is under way, or the last
  std::int64_t saved_ = -1;  ///< the step of the newest that is there
  std::optional<std::string> newest_;
  double pause_ = 0;  ///< seconds that training has waited for the save under way
  std::optional<double> longest_;
};

}  // namespace weft::train
