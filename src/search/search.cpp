#include "search/search.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace weft::search {
namespace {

/// The share of a step's time that twice the memory is worth.
constexpr double price_of_memory = 0.02;
constexpr double late_share = 0.2;

using Numbers = std::vector<int>;
/// The three directions that have buckets of their own.
constexpr std::array directions{&passes::Buckets::forward, &passes::Buckets::backward,
                                &passes::Buckets::reduce};

class Search {
 public:
  Search(const Problem& problem, const machine::CostModel& costs, const SearchOptions& options)
      : p_(problem), costs_(costs), options_(options), unit_bytes_(problem.units, 0) {
    for (const Gather& g : p_.gathers) unit_bytes_[g.unit.index()] = g.wire_bytes;
    for (const Reduce& r : p_.reduces)
      if (unit_bytes_[r.unit.index()] == 0) unit_bytes_[r.unit.index()] = r.wire_bytes;
    for (const ReplicaSum& s : p_.sums)
      if (unit_bytes_[s.unit.index()] == 0) unit_bytes_[s.unit.index()] = s.wire_bytes;
    late_ = lateness(problem);
    // The number of tasks decides how long an estimate takes.
    const std::size_t tasks = p_.slots.size() + p_.gathers.size() + p_.reduces.size();
    estimates_left_ =
        static_cast<int>(std::clamp<std::size_t>(6'000'000 / std::max<std::size_t>(tasks, 1), 200, 4000));
  }

  Schedule from(const std::vector<Schedule>& starts) {
    best_ = starts.front();
    best_estimate_ = estimate(p_, best_, costs_, late_);
    first_live_ = static_cast<double>(std::max<std::int64_t>(best_estimate_.live_bytes, 1));
    for (const Schedule& start : starts) try_(start);
    do {
      while (coarse()) {
      }
    } while (borders());
    return best_;
  }

 private:
  bool fits(const Estimate& e) const {
    return options_.live_limit == 0 || e.live_bytes <= options_.live_limit;
  }

  bool is_better(const Estimate& a, const Estimate& b) const {
    if (fits(a) != fits(b)) return fits(a);
    if (!fits(a)) return a.live_bytes < b.live_bytes;
    const std::pair mine(score(a), a.collectives), other(score(b), b.collectives);
    return mine < other;
  }
  double score(const Estimate& e) const {
    return e.seconds * (1 + price_of_memory * static_cast<double>(e.live_bytes) / first_live_);
  }

  bool try_(const Schedule& candidate) {
    if (estimates_left_-- <= 0) return false;
    const Estimate e = estimate(p_, candidate, costs_, late_);
    if (!is_better(e, best_estimate_)) return false;
    best_ = candidate;
    best_estimate_ = e;
    return true;
  }

  /// Puts units into buckets in order; a bucket is full as soon as it has `bytes`.
  Numbers by_size(double bytes) const {
    Numbers numbers(p_.units, 0);
    double open = 0;
    for (std::size_t u = 1; u < p_.units; ++u) {
      open += unit_bytes_[u - 1];
      const bool full = open >= bytes;
      numbers[u] = numbers[u - 1] + (full ? 1 : 0);
      if (full) open = 0;
    }
    return numbers;
  }

  /// Changes one setting after another over its whole range, with the others as they are.
  bool coarse() {
    bool better = false;
    const double all = std::accumulate(unit_bytes_.begin(), unit_bytes_.end(), 0.0);
    for (const auto direction : directions)
      for (double share = 0; share <= 0.3; share = share == 0 ? 1.0 / 256 : share * 2) {
        Schedule s = best_;
        s.buckets.*direction = by_size(share * all);
        better |= try_(s);
      }
    for (const int prefetch :
         options_.prefetch ? std::vector<int>{} : std::vector<int>{0, 1, 2, 3, 4, 6, 8, 12, 16})
      better |= try_with(&Schedule::prefetch, prefetch);
    for (const int delay :
         options_.delay ? std::vector<int>{} : std::vector<int>{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32})
      better |= try_with(&Schedule::delay, delay);
    if (options_.keep == Keep::choose)
      for (const int eighths : {0, 1, 2, 3, 4, 5, 6, 7, 8})
        better |= try_with(&Schedule::keep_units, static_cast<int>(p_.units) * eighths / 8);
    return better;
  }
  bool try_with(int Schedule::*knob, int value) {
    Schedule s = best_;
    s.*knob = value;
    return try_(s);
  }

  /// Changes each border between two units: sets it where there is none, and takes it away where there is
  /// one.
  bool borders() {
    bool better = false;
    for (const auto direction : directions)
      for (std::size_t u = 1; u < p_.units; ++u) {
        Schedule s = best_;
        Numbers& numbers = s.buckets.*direction;
        const int change = numbers[u] == numbers[u - 1] ? 1 : numbers[u - 1] - numbers[u];
        for (std::size_t v = u; v < p_.units; ++v) numbers[v] += change;
        better |= try_(s);
      }
    return better;
  }

  const Problem& p_;
  const machine::CostModel& costs_;
  SearchOptions options_;
  std::vector<double> unit_bytes_;
  int estimates_left_ = 0;
  double late_ = 0;        ///< how late collectives come, in seconds
  double first_live_ = 1;  ///< live bytes of the first start
  Schedule best_;
  Estimate best_estimate_;
};

}  // namespace

double lateness(const Problem& problem) {
  // A unit that is gathered in place is gathered once in a step.
  const std::size_t collectives = std::max(problem.gathers.size(), problem.reduces.size());
  if (collectives == 0) return 0;
  return late_share * std::accumulate(problem.slots.begin(), problem.slots.end(), 0.0) /
         static_cast<double>(collectives);
}

Schedule unit_schedule(const Problem& problem) {
  Numbers numbers(problem.units);
  std::iota(numbers.begin(), numbers.end(), 0);
  return {{numbers, numbers, numbers}, 1, 1, 0};
}

Schedule search(const Problem& problem, const machine::CostModel& costs, const SearchOptions& options,
                const std::vector<Schedule>& starts) {
  return Search(problem, costs, options).from(starts);
}

}  // namespace weft::search
