// Finds the best arrangements of a deck's work over a number of ranks: `weft advise`, and the deck's
// parallel.mesh = "auto".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "advise/arrangement.hpp"
#include "base/check.hpp"
#include "compile/predicted_step.hpp"
#include "machine/cost_model.hpp"
#include "plan/plan.hpp"

namespace weft::advise {

/// What is advised for.
struct Question {
  const Deck& deck;
  int world = 1;
  int per_host = 1;  ///< ranks of a host
  Kept kept;
  const machine::CostModel& costs;
  plan::ScratchQuery scratch;
  std::int64_t baseline = 0;  ///< as in compile::choose_schedule()
  std::size_t rows = 5;       ///< arrangements to be returned
};

/// An arrangement of which a plan was tried.
struct Row {
  Arrangement arrangement;
  compile::PredictedStep step;   ///< takes forever where there is no plan
  std::optional<Error> refused;  ///< why there is no plan
  double estimated_s = 0;        ///< the step by its estimate, which others are compared with
  double quick_s = 0;            ///< the step by a plan with a bucket a layer, which is made without a search
  /// What would help it most, of what was tried: "twice the batch: +8 %".
  std::string next;
};

struct Advice {
  std::size_t possible = 0;  ///< arrangements that the deck's sizes allow
  std::size_t fitting = 0;   ///< of them, those that fit the memory by their estimate
  std::size_t planned = 0;   ///< of these, those that were planned
  double limit = 0;          ///< bytes that state and arena may take; 0: any number
  std::vector<Row> rows;     ///< best first; all fit
  /// The deck's own arrangement, where it has one for so many ranks. It need neither fit nor have a plan.
  std::optional<Row> given;
};

/// Estimates all arrangements, plans the most promising of each mesh and variants of the best, and returns
/// the best. The result depends on the question alone. Throws Error(bad_input) when no arrangement is
/// possible, and when none fits; or, where all were refused an estimate or a plan, the Error of the first.
Advice advise(const Question& question);

/// The advice as a table, and the settings of its first row for --set.
std::string to_text(const Advice& advice, const Question& question);

/// What parallel.mesh = "auto" stands for: the advice of one row that leaves alone the keys that the deck
/// gives. Throws as advise().
Arrangement chosen_arrangement(Question question);
/// The settings of that arrangement.
std::vector<std::string> chosen_settings(Question question);

}  // namespace weft::advise
