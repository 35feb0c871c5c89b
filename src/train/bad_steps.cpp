#include "train/bad_steps.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace weft::train {

BadSteps::BadSteps(const Deck& deck)
    : policy_(deck.optimizer.nonfinite),
      limit_(deck.optimizer.nonfinite_limit),
      locates_(deck.debug.nan == NanSearch::locate) {}

std::optional<Nonfinite> BadSteps::after(const report::StepMetrics& metrics) {
  if (metrics.updated) {
    if (metrics.step >= last_bad_) in_a_row_ = 0;
    return std::nullopt;
  }
  ++in_a_row_;
  last_bad_ = std::max(last_bad_, metrics.step);
  return in_a_row_ > limit_ ? Nonfinite::stop : policy_;
}

std::string BadSteps::describe(const report::StepMetrics& metrics) const {
  // The sign of a NaN says nothing, and who searches a log looks for "nan".
  const auto unsigned_nan = [](double x) { return std::isnan(x) ? std::abs(x) : x; };
  std::string text = fmt::format("step {}: the loss is {} and the gradient norm {}", metrics.step,
                                 unsigned_nan(metrics.loss), unsigned_nan(metrics.grad_norm.value_or(0)));
  if (policy_ != Nonfinite::stop)
    text += fmt::format(" ({} in a row, optimizer.nonfinite_limit = {})", in_a_row_, limit_);
  return text;
}

std::string BadSteps::advice(const std::optional<std::string>& checkpoint) const {
  return fmt::format(
      "{}lower optimizer.lr or set optimizer.clip, and {}",
      locates_ ? "" : "set debug.nan = \"locate\" to see where it begins, ",
      checkpoint ? fmt::format("resume from {}, or from an older one if its parameters are bad", *checkpoint)
                 : "start again (no checkpoint was saved)");
}

}  // namespace weft::train
