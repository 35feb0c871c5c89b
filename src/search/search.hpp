// Chooses a schedule: by the greedy algorithm of SimpleFSDP, or by searching for the shortest simulated step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/schedule.hpp"

namespace weft::search {

enum class Keep : std::uint8_t { as_given, choose };
struct SearchOptions {
  std::int64_t live_limit = 0;  ///< the most bytes of the arena that may be live at once; 0: no limit
  Keep keep = Keep::as_given;   ///< whether keep_units is searched, too
  std::optional<int> prefetch{}, delay{};  ///< given values are not searched; the starts have them
};

/// By how many seconds collectives come late in a search. Ranks are not equally fast all the time, and a
/// collective that is only just hidden lets the slower of two ranks hold up the other, now this one, now
/// that. It is a fifth of the mean compute between two gathers; 0 where nothing is gathered.
double lateness(const Problem& problem);

/// A schedule in which each unit has its own collectives.
Schedule unit_schedule(const Problem& problem);

/// SimpleFSDP's automatic plan as its authors released it (docs/schedule.md has the rules): gathers join the
/// open bucket until it no longer hides under the compute passed meanwhile, or exceeds the memory or a fifth
/// of all bytes.
Schedule greedy(const Problem& problem, const machine::CostModel& costs, std::int64_t live_limit);

/// The best schedule found: coordinate descent from each of `starts` over bucket sizes, prefetch distance,
/// delay and kept units, then over single bucket borders. A schedule is better when it is within the limit,
/// and then when its step is shorter with collectives that come late by lateness(); twice the memory of the
/// first start has to be worth 2 % of the time. By that measure it is never worse than a start. It is
/// deterministic, with a bounded number of estimates.
Schedule search(const Problem& problem, const machine::CostModel& costs, const SearchOptions& options,
                const std::vector<Schedule>& starts);

}  // namespace weft::search
