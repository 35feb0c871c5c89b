// Decides what follows a step whose loss or gradient norm is not finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "deck/deck.hpp"
#include "report/metrics.hpp"

namespace weft::train {

/// Counts bad steps and says what the deck wants. Such a step has changed neither parameters nor moments
/// (kernels::adamw), so the run may go on, or run the step again. All ranks count the same.
class BadSteps {
 public:
  explicit BadSteps(const Deck& deck);

  /// Call it after each step. The result is empty when the step was good, and otherwise says what follows.
  /// That is `stop`, too, when more than optimizer.nonfinite_limit steps in a row are bad; a row ends with a
  /// good step that is as late as its last one.
  std::optional<Nonfinite> after(const report::StepMetrics& metrics);
  /// The step in words: "step 7: the loss is nan and the gradient norm nan", and how many there were in a row
  /// unless the run stops at the first.
  std::string describe(const report::StepMetrics& metrics) const;
  /// What the user should do when the run stops here. `checkpoint` is the last one, if there is any.
  std::string advice(const std::optional<std::string>& checkpoint) const;

 private:
  Nonfinite policy_;
  std::int64_t limit_;
  bool locates_;
  std::int64_t in_a_row_ = 0;
  std::int64_t last_bad_ = 0;
};

}  // namespace weft::train
