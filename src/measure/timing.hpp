// Times the things that this folder measures: repeats them, and takes the median of a rank, and of the ranks
// the slowest or the median.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/median.hpp"
#include "comm/world.hpp"

namespace weft::measure {

/// The least of the values. What others do on the machine only adds to a time, so where times are compared,
/// the least of several is nearest to the truth.
inline double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

/// Collective: the largest of all ranks' values.
inline double slowest(comm::World& world, double value) {
  world.all_reduce_max(std::span(&value, 1));
  return value;
}

/// Collective: the median of all ranks' values. It is for what ranks have alike, but each measures badly:
/// with fewer cores than ranks, one rank computes on a core of its own while others share one.
inline double typical(comm::World& world, double value) {
  std::vector<double> values(static_cast<std::size_t>(world.size()));
  values[static_cast<std::size_t>(world.rank())] = value;
  world.all_reduce_sum(std::span(values));
  return median(std::move(values));
}

inline double seconds_of(const std::function<void()>& work) {
  const double start = seconds_now();
  work();
  return seconds_now() - start;
}

/// Collective: median seconds of `work` over `repeats`, on the slowest rank. All ranks start together. The
/// caller warms up.
inline double time_together(comm::World& world, int repeats, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    world.barrier();
    seconds.push_back(seconds_of(work));
  }
  return slowest(world, median(std::move(seconds)));
}

}  // namespace weft::measure
