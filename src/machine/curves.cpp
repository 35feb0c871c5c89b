#include "machine/curves.hpp"

#include <algorithm>
#include <cmath>

namespace weft::machine {

Curve::Curve(std::vector<CollectivePoint> points) : points_(std::move(points)) {
  double most = 0;
  for (CollectivePoint& p : points_) p.seconds = most = std::max(most, p.seconds);
}

double Curve::seconds(double bytes) const {
  if (bytes <= points_.front().bytes) return points_.front().seconds;
  const CollectivePoint& last = points_.back();
  if (bytes >= last.bytes) return last.seconds * (bytes / last.bytes);
  const auto above = std::upper_bound(points_.begin(), points_.end(), bytes,
                                      [](double b, const CollectivePoint& p) { return b < p.bytes; });
  const CollectivePoint& a = *(above - 1);
  const CollectivePoint& b = *above;
  const double share = std::log(bytes / a.bytes) / std::log(b.bytes / a.bytes);
  return a.seconds * std::pow(b.seconds / a.seconds, share);
}

}  // namespace weft::machine
