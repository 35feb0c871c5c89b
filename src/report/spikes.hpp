// Finds loss spikes: losses far above those before them.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace weft::report {

/// A spike is a loss above median + threshold * deviation of the 50 finite losses before it. The deviation is
/// 1.4826 times the median distance from the median: the standard deviation of normal noise, which single
/// outliers do not change. It counts as at least 0.5 % of the median. Nothing is a spike before there are 50
/// losses.
class Spikes {
 public:
  struct Spike {
    double median, deviation;  ///< of the losses before the spike
  };
  static constexpr std::size_t history = 50;

  /// With a `threshold` of 0 nothing is a spike.
  explicit Spikes(double threshold) : threshold_(threshold) {}

  /// Takes the next step's loss. Only the first of several high losses in a row is a spike; if they stay, the
  /// history soon has the new level.
  std::optional<Spike> add(double loss);

 private:
  double threshold_;
  std::deque<double> losses_;
  bool above_ = false;
};

}  // namespace weft::report
