// Steps whose loss or gradient norm is not finite: what follows them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "deck/deck.hpp"
#include "report/metrics.hpp"

namespace weft::train {

/// Counts bad steps and says what the deck wants. Such a step has changed neither parameters nor moments
/// (kernels::adamw), so that the run may go on, or run the step again. The same on all ranks.
class BadSteps {
 public:
  explicit BadSteps(const Deck& deck);

  /// Call after each step. Empty when it was good, otherwise what follows: stop also when more than
  /// optimizer.nonfinite_limit are bad in a row, that is until a step as late as the last of them is good.
  std::optional<Nonfinite> after(const report::StepMetrics& metrics);
  /// "step 7: the loss is nan and the gradient norm nan", and how many there were in a row unless the run
  /// stops at the first.
  std::string describe(const report::StepMetrics& metrics) const;
  /// What the user of a run that stops here should do. `checkpoint` is the last one, if there is any.
  std::string advice(const std::optional<std::string>& checkpoint) const;

 private:
  Nonfinite policy_;
  std::int64_t limit_;
  bool locates_;
  std::int64_t in_a_row_ = 0;
  std::int64_t last_bad_ = 0;
};

}  // namespace weft::train
