#include "report/spikes.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/median.hpp"

namespace weft::report {
namespace {

// Median deviation times this is the standard deviation of normal noise.
constexpr double normal_deviations = 1.4826;
constexpr double least_deviation = 0.005;  // share of the median; a smooth curve always has that much

}  // namespace

std::optional<Spikes::Spike> Spikes::add(double loss) {
  if (threshold_ <= 0 || !std::isfinite(loss)) return std::nullopt;
  std::optional<Spike> spike;
  if (losses_.size() == history) {
    Spike at{weft::median({losses_.begin(), losses_.end()}), 0};
    std::vector<double> distances;
    for (const double l : losses_) distances.push_back(std::abs(l - at.median));
    at.deviation = std::max(normal_deviations * weft::median(std::move(distances)),
                            least_deviation * std::abs(at.median));
    const bool above = loss > at.median + threshold_ * at.deviation;
    if (above && !above_) spike = at;
    above_ = above;
    losses_.pop_front();
  }
  losses_.push_back(loss);
  return spike;
}

}  // namespace weft::report
