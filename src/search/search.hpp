// Chooses a schedule: by the greedy algorithm of SimpleFSDP, or by searching for the shortest simulated step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/schedule.hpp"

namespace weft::search {

enum class Keep : std::uint8_t { as_given, choose };
struct SearchOptions {
  std::int64_t live_limit = 0;             ///< bytes of the arena that may be live at once; 0: no limit
  Keep keep = Keep::as_given;              ///< whether keep_units is searched, too
  std::optional<int> prefetch{}, delay{};  ///< given, not searched; the starts have them
};

/// Seconds that a search lets collectives come late: ranks are not equally fast all the time, and what hides
/// a collective exactly lets the slower of two hold up the other, now this one, now that. A fifth of the mean
/// compute between two gathers; 0 where nothing is gathered.
double lateness(const Problem& problem);

/// A schedule with a collective a unit.
Schedule unit_schedule(const Problem& problem);

/// SimpleFSDP's automatic plan as its authors released it (docs/schedule.md has the rules): gathers join the
/// open bucket until it no longer hides under the compute passed meanwhile, or memory or a fifth of all bytes
/// is exceeded.
Schedule greedy(const Problem& problem, const machine::CostModel& costs, std::int64_t live_limit);

/// The best schedule found: coordinate descent from each of `starts` over bucket sizes, prefetch distance,
/// delay and kept units, then over single bucket borders. Best: within the limit, then the shortest step with
/// collectives that come late by lateness(), where twice the memory of the
/// first start has to be worth 2 % of its time. Never worse than a start by that measure. Deterministic, with
/// a bounded number of estimates.
Schedule search(const Problem& problem, const machine::CostModel& costs, const SearchOptions& options,
                const std::vector<Schedule>& starts);

}  // namespace weft::search
