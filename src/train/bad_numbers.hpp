// Does what the deck wants after a step whose loss or gradient norm is not finite.
#pragma once

#include <functional>

#include "deck/deck.hpp"
#include "exec/executor.hpp"
#include "report/report.hpp"
#include "runtime/model_state.hpp"
#include "runtime/session.hpp"
#include "train/bad_steps.hpp"
#include "train/saver.hpp"
#include "train/start.hpp"

namespace weft::train {

class BadNumbers {
 public:
  /// The parts of the run that it acts on. All outlive it.
  struct Run {
    const Deck& deck;
    const Start& start;
    runtime::Session& session;
    exec::Executor& step;  ///< runs the training step
    runtime::ModelState& state;
    Saver& saver;
    report::Report& report;
    Position& at;  ///< changes when the run goes back
    /// Makes the next run of the step, with the same inputs, leave the state as it is (StepBlock::hold).
    std::function<void()> hold_update;
  };
  explicit BadNumbers(const Run& run) : run_(run), bad_steps_(run.deck) {}

  /// Collective, called after each step. Returns whether the run goes on behind the step; false when it has
  /// gone back to an earlier one. Throws Error(failure) when the run stops here.
  bool goes_on_after(const report::StepMetrics& metrics);

 private:
  void locate(const report::StepMetrics& metrics);
  void roll_back();

  Run run_;
  BadSteps bad_steps_;
};

}  // namespace weft::train
