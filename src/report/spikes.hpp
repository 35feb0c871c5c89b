// Loss spikes: a loss far above those before it.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace weft::report {

/// A spike is a loss above median + threshold * deviation of the 50 finite losses before it. The deviation is
/// 1.4826 times the median distance from the median, which is the standard deviation of normal noise and
/// which single outliers do not change; it counts as 0.5 % of the median at least. Nothing is flagged before
/// there are 50.
class Spikes {
 public:
  struct Spike {
    double median, deviation;  ///< of the losses before it
  };
  static constexpr std::size_t history = 50;

  /// `threshold` 0 flags nothing.
  explicit Spikes(double threshold) : threshold_(threshold) {}

  /// The next step's loss. Flags the first of losses in a row that are above; a new level is soon the
  /// history's own.
  std::optional<Spike> add(double loss);

 private:
  double threshold_;
  std::deque<double> losses_;
  bool above_ = false;
};

}  // namespace weft::report
