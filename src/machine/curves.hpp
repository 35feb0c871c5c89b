// Estimates collectives between and beyond the sizes and numbers of ranks that were measured.
#pragma once

#include <vector>

#include "machine/profile.hpp"

namespace weft::machine {

/// One measured curve as a function that never falls: noise that makes a larger message look faster is
/// flattened.
class Curve {
 public:
  /// `points` is not empty, and ascends in bytes.
  explicit Curve(std::vector<CollectivePoint> points);

  /// Seconds for `bytes` that a rank sends, at the measured number of ranks. Between two points it follows
  /// the line through their logarithms. Below the first point it has that point's seconds, and above the last
  /// that point's bytes a second.
  double seconds(double bytes) const;
  /// Seconds of the smallest message that was measured.
  double latency() const { return points_.front().seconds; }

 private:
  std::vector<CollectivePoint> points_;
};

}  // namespace weft::machine
