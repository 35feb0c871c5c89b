// Makes the run's checkpoints: one save at a time, in the background where there is room for a copy of the
// state.
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

/// Makes and counts the saves. All calls but before_update() are collective. A save that fails costs a
/// warning and that checkpoint. All references that are passed in outlive this object.
class Saver {
 public:
  /// `run` is what each checkpoint says of the run, apart from how far it has come. With `background`, it
  /// allocates the memory of the copy now.
  Saver(const Deck& deck, runtime::Session& session, runtime::ModelState& state, report::Report& report,
        ckpt::RunState run, bool background);

  /// Saves the state as it is, unless that was done. In the background it only begins to save, after the end
  /// of the save that is under way, if there is one.
  void begin(const Position& at);
  /// Saves the state like begin(), and waits for the end. Returns false on all ranks when the checkpoint is
  /// not there.
  bool save(const Position& at);
  /// Call it before the state changes: it waits until the state is copied.
  void before_update();
  /// Call it after a step: it takes a save that is under way further, without waiting for it.
  void advance();
  /// Waits for the end of the save that is under way, if there is one.
  void finish();
  /// Sets what later checkpoints say of the run's token files.
  void set_data(std::vector<ckpt::DataFile> data) { run_.data = std::move(data); }
  /// Sets whether later saves remove no earlier checkpoint, because the state may be ruined.
  void keep_earlier(bool keeps) { keeps_earlier_ = keeps; }
  /// Says that this state was loaded from a checkpoint of the run's own, so there is no need to save it
  /// again.
  void set_saved(std::int64_t step, const std::string& path) {
    saved_ = step;
    newest_ = path;
  }
  /// Says that the state was loaded from this checkpoint of another run, to which this run can go back.
  void set_start(const std::string& path) { newest_ = path; }
  /// The path of the last checkpoint that was saved or loaded; empty before there is one.
  const std::optional<std::string>& newest() const { return newest_; }
  /// Says that the run has gone back to newest(). Other data follow, so the states of its next steps were not
  /// saved.
  void gone_back() { saved_ = -1; }
  /// Seconds from begin to end of the longest save so far, on any rank.
  std::optional<double> longest_seconds() const { return longest_; }
  /// Seconds until the save that is under way ends, on this rank, if a save takes `whole` seconds; 0 when
  /// none is.
  double seconds_to_end(double whole) const;

 private:
  void start(const Position& at, std::vector<ckpt::StateSlice> slices,
             std::function<void()> await_slices = {});
  void advance(ckpt::WaitForEnd wait);
  void tell(const ckpt::SaveReport& report);
  std::string what_is_left() const;

  const Deck& deck_;
  runtime::Session& session_;
  runtime::ModelState& state_;
  report::Report& report_;
  ckpt::RunState run_;
  std::unique_ptr<runtime::StateCopy> copy_;
  std::unique_ptr<ckpt::Save> under_way_;
  bool keeps_earlier_ = false;
  std::int64_t step_ = -1;   ///< step of the save that is under way, or of the last one
  std::int64_t saved_ = -1;  ///< step of the newest checkpoint that is there
  std::optional<std::string> newest_;
  double begun_ = 0;  ///< when the save under way, or the last one, began
  double pause_ = 0;  ///< seconds that training has waited for the save under way
  std::optional<double> longest_;
};

}  // namespace weft::train
