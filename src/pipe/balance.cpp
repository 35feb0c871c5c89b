#include "pipe/balance.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace weft::pipe {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// The sums of the first 0, 1, 2, ... layers.
std::vector<double> sums_of(const std::vector<LayerCost>& layers, double LayerCost::*what) {
  std::vector<double> sums{0};
  for (const LayerCost& layer : layers) sums.push_back(sums.back() + layer.*what);
  return sums;
}

/// Finds the cuts with the least largest stage.
class Cuts {
 public:
  Cuts(const std::vector<LayerCost>& layers, int stages)
      : seconds_(sums_of(layers, &LayerCost::seconds)),
        bytes_(sums_of(layers, &LayerCost::bytes)),
        layers_(layers.size()),
        stages_(static_cast<std::size_t>(stages)) {}

  std::vector<int> run() {
    // Sums in another order differ in their last digits, which must not decide.
    const double slowest = least_largest(seconds_, never) * (1 + 1e-9);
    least_largest(bytes_, slowest);
    std::vector<int> lengths(stages_);
    std::size_t end = layers_;
    for (std::size_t stage = stages_; stage-- > 0;) {
      const std::size_t begin = begin_[stage][end];
      lengths[stage] = static_cast<int>(end - begin);
      end = begin;
    }
    return lengths;
  }

 private:
  /// The least that the largest stage takes by `sums`, of the cuts whose stages all take at most `limit`
  /// seconds. begin_ keeps the cut: where stage s begins when it ends before layer `end`.
  double least_largest(const std::vector<double>& sums, double limit) {
    std::vector<double> best(layers_ + 1, never);  // of the stages before, by the layer that they end before
    best[0] = 0;
    begin_.assign(stages_, std::vector<std::size_t>(layers_ + 1));
    for (std::vector<std::size_t>& begins : begin_) {
      std::vector<double> next(layers_ + 1, never);
      for (std::size_t end = 1; end <= layers_; ++end)
        for (std::size_t length = 1; length <= end; ++length) {
          const std::size_t begin = end - length;
          if (seconds_[end] - seconds_[begin] > limit) break;
          const double largest = std::max(best[begin], sums[end] - sums[begin]);
          // A cut that is equal to the one found before begins earlier, and so leaves less to earlier stages.
          if (largest > next[end]) continue;
          next[end] = largest;
          begins[end] = begin;
        }
      best = next;
    }
    return best[layers_];
  }

  std::vector<double> seconds_, bytes_;
  std::size_t layers_, stages_;
  std::vector<std::vector<std::size_t>> begin_;
};

}  // namespace

std::vector<int> balance(const std::vector<LayerCost>& layers, int stages) {
  WEFT_VALIDATE(static_cast<std::size_t>(stages) <= layers.size(),
                "{} stages of a pipe for {} layers, embedding and head included; use at most {} stages",
                stages, layers.size(), layers.size());
  return Cuts(layers, stages).run();
}

}  // namespace weft::pipe
