// A schedule of a step's collectives, and an estimate of what it takes.
#pragma once

#include <cstdint>

#include "machine/cost_model.hpp"
#include "passes/passes.hpp"
#include "search/problem.hpp"

namespace weft::search {

struct Schedule {
  passes::Buckets buckets;
  int prefetch = 1;
  int delay = 1;
  int keep_units = 0;  ///< how many of the last units stay gathered from forward to backward
};

struct Estimate {
  double seconds = 0;
  std::int64_t live_bytes = 0;  ///< the most bytes of the arena that are live at once
  int collectives = 0;
};

/// Estimates the step under a schedule, on the clock of machine::run_lanes. It differs from the simulated
/// plan in what only a plan knows: which buffers share memory. A held buffer is assumed to be wanted as soon
/// as it is released. late_seconds are those of run_lanes.
Estimate estimate(const Problem& problem, const Schedule& schedule, const machine::CostModel& costs,
                  double late_seconds = 0);

}  // namespace weft::search
