#include "pipe/balance.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

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

/// Finds the cuts of a folded pipe. Ranks are dealt out from the first to the last: each takes layers from
/// both ends of what is left.
class FoldedCuts {
 public:
  FoldedCuts(const std::vector<LayerCost>& layers, int ranks)
      : seconds_(sums_of(layers, &LayerCost::seconds)),
        layers_(layers.size()),
        ranks_(static_cast<std::size_t>(ranks)) {}

  std::vector<int> run() {
    // Most pairs of lengths are far too long for a rank. The first limit leaves them out.
    const double mean = seconds_.back() / static_cast<double>(ranks_);
    double slowest = never;
    for (double limit = 1.5 * mean; slowest == never; limit *= 2) slowest = least(limit, Part::rank);
    least(slowest * (1 + 1e-9), Part::stage);
    std::vector<int> lengths(2 * ranks_);
    Left left = last_;
    for (std::size_t rank = ranks_; rank-- > 0;) {
      const Taken taken = taken_[rank][place(left)];
      lengths[rank] = taken.front;
      lengths[2 * ranks_ - 1 - rank] = taken.back;
      left = {left.begin - taken.front, left.end + taken.back};
    }
    return lengths;
  }

 private:
  /// The layers that no rank has yet.
  struct Left {
    std::size_t begin = 0, end = 0;
  };
  /// How many layers a rank takes. There are tables of these with layers^2 entries a rank, so they are small.
  struct Taken {
    std::uint16_t front = 0, back = 0;
  };
  static_assert(most_folded_layers <= std::numeric_limits<std::uint16_t>::max());
  enum class Part { rank, stage };

  std::size_t place(const Left& left) const { return left.begin * (layers_ + 1) + left.end; }
  double between(std::size_t begin, std::size_t end) const { return seconds_[end] - seconds_[begin]; }

  /// The least that the largest part takes, of the cuts whose ranks all take at most `limit` seconds.
  double least(double limit, Part part) {
    const std::size_t all = (layers_ + 1) * (layers_ + 1);
    std::vector<double> best(all, never);  // by what is left
    best[place({0, layers_})] = 0;
    taken_.assign(ranks_, std::vector<Taken>(all));
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::vector<double> next(all, never);
      const auto extend = [&](const Left& from, const Left& to, double front, double back) {
        const double largest =
            std::max(best[place(from)], part == Part::rank ? front + back : std::max(front, back));
        if (largest >= next[place(to)]) return;
        next[place(to)] = largest;
        taken_[rank][place(to)] = {static_cast<std::uint16_t>(to.begin - from.begin),
                                   static_cast<std::uint16_t>(from.end - to.end)};
      };
      for (std::size_t begin = 0; begin < layers_; ++begin)
        for (std::size_t end = begin + 1; end <= layers_; ++end) {
          if (best[place({begin, end})] == never) continue;
          for (std::size_t to = begin + 1; to < end && between(begin, to) <= limit; ++to)
            for (std::size_t back = end - 1; back >= to; --back) {
              const double front = between(begin, to), behind = between(back, end);
              if (front + behind > limit) break;
              extend({begin, end}, {to, back}, front, behind);
            }
        }
      best = std::move(next);
    }
    double found = never;
    for (std::size_t middle = 0; middle <= layers_; ++middle)
      if (best[place({middle, middle})] < found) {
        found = best[place({middle, middle})];
        last_ = {middle, middle};
      }
    return found;
  }

  std::vector<double> seconds_;
  std::size_t layers_, ranks_;
  Left last_;                              ///< where the last rank's two stages meet
  std::vector<std::vector<Taken>> taken_;  ///< by rank, and by what it leaves
};

}  // namespace

std::vector<int> balance(const std::vector<LayerCost>& layers, int stages) {
  WEFT_VALIDATE(static_cast<std::size_t>(stages) <= layers.size(),
                "{} stages of a pipe for {} layers, embedding and head included; use at most {} stages",
                stages, layers.size(), layers.size());
  return Cuts(layers, stages).run();
}

std::vector<int> balance_folded(const std::vector<LayerCost>& layers, int ranks) {
  WEFT_VALIDATE(2 * static_cast<std::size_t>(ranks) <= layers.size(),
                "{} stages of a pipe for {} layers, embedding and head included; use at most {} stages",
                2 * ranks, layers.size(), layers.size());
  WEFT_VALIDATE(layers.size() <= most_folded_layers,
                "{} layers, embedding and head included, are too many to deal out over a folded pipe (every "
                "cut of them is weighed, of at most {}); give the layers of each stage",
                layers.size(), most_folded_layers);
  return FoldedCuts(layers, ranks).run();
}

}  // namespace weft::pipe
