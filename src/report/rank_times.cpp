#include "report/rank_times.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/device.hpp"
#include "io/step_lines.hpp"

namespace weft::report {
namespace {

constexpr double notable = 1.1;  ///< a rank's seconds over the median rank's from which it is reported
constexpr std::size_t listed_ranks = 16;  ///< the most ranks that the summary lists

/// The ranks, the fastest first.
std::vector<std::size_t> by_seconds(const std::vector<double>& seconds) {
  std::vector<std::size_t> ranks(seconds.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  return ranks;
}

std::size_t median_of(const std::vector<std::size_t>& ranks) {
  return ranks[(ranks.size() - 1) / 2];
}

}  // namespace

void RankTimes::add(const exec::Times& times, double step_seconds, const MemoryBytes& memory) {
  memory_.resident = std::max(memory_.resident, memory.resident);
  memory_.planned = memory.planned;
  if (!std::exchange(any_, true)) return;
  ++steps_;
  step_s_ += step_seconds;
  if (device_is_host()) {
    step_s_ -= std::accumulate(times.exposed.begin(), times.exposed.end(), 0.0);
  } else {
    under_way_s_ += std::accumulate(times.under_way.begin(), times.under_way.end(), 0.0);
  }
}

RankFigures RankTimes::collect() {
  const auto ranks = static_cast<std::size_t>(session_.ranks());
  const auto rank = static_cast<std::size_t>(session_.rank());
  // Four numbers of each rank, one kind behind the other.
  std::vector<double> all(4 * ranks);
  all[rank] = std::exchange(step_s_, 0);
  all[ranks + rank] = std::exchange(under_way_s_, 0);
  const MemoryBytes memory = std::exchange(memory_, {});
  all[2 * ranks + rank] = static_cast<double>(memory.resident);
  all[3 * ranks + rank] = static_cast<double>(memory.planned);
  session_.world().all_reduce_sum(all);
  const auto under_way = all.begin() + static_cast<std::ptrdiff_t>(ranks);
  const double least = *std::min_element(under_way, under_way + static_cast<std::ptrdiff_t>(ranks));
  RankFigures own{std::exchange(steps_, 0), {}, {}};
  for (std::size_t r = 0; r < ranks; ++r) {
    own.seconds.push_back((all[r] - (all[ranks + r] - least)) /
                          static_cast<double>(std::max<std::int64_t>(1, own.steps)));
    own.memory.push_back(
        {static_cast<std::int64_t>(all[2 * ranks + r]), static_cast<std::int64_t>(all[3 * ranks + r])});
  }
  return own;
}

SlowRanks::SlowRanks(const std::string& path, std::optional<std::int64_t> resumed_at,
                     std::vector<std::string> hosts)
    : file_(io::prepare_step_lines(path, resumed_at)), hosts_(std::move(hosts)), seconds_(hosts_.size()) {}

std::string SlowRanks::name(std::size_t rank) const {
  return fmt::format("rank {} on {}", rank, hosts_[rank]);
}

std::string SlowRanks::add(std::int64_t step, const RankFigures& own) {
  if (own.steps == 0) return {};
  steps_ += own.steps;
  for (std::size_t r = 0; r < seconds_.size(); ++r)
    seconds_[r] += own.seconds[r] * static_cast<double>(own.steps);
  const auto ranks = by_seconds(own.seconds);
  const std::size_t slowest = ranks.back();
  const double most = own.seconds[slowest], median = own.seconds[median_of(ranks)];
  std::vector<std::int64_t> resident, planned;
  for (const MemoryBytes& memory : own.memory) {
    resident.push_back(memory.resident);
    planned.push_back(memory.planned);
  }
  file_.append(
      fmt::format("{{\"step\": {}, \"steps\": {}, \"slowest\": {}, \"host\": \"{}\", \"own_s\": [{:.6g}], "
                  "\"rss_bytes\": [{}], "
                  "\"planned_bytes\": [{}]}}\n",
                  step, own.steps, slowest, hosts_[slowest], fmt::join(own.seconds, ", "),
                  fmt::join(resident, ", "), fmt::join(planned, ", ")));
  if (most <= notable * median) return {};
  return fmt::format("slow: {} takes {:.4g} s of a step for itself, the median rank {:.4g} s", name(slowest),
                     most, median);
}

std::vector<std::string> SlowRanks::lines() const {
  if (steps_ == 0) return {};
  const auto ranks = by_seconds(seconds_);
  const auto line = [&](const char* what, std::size_t rank) {
    return fmt::format("  {:<40} {:>14}", fmt::format("{}{}", what, name(rank)),
                       fmt::format("{:.4g} s", seconds_[rank] / static_cast<double>(steps_)));
  };
  std::vector<std::string> lines{fmt::format("mean of {} steps, without waiting for others", steps_),
                                 line("slowest: ", ranks.back()), line("median: ", median_of(ranks)),
                                 line("fastest: ", ranks.front())};
  if (ranks.size() > 3 && ranks.size() <= listed_ranks)
    for (std::size_t r = 0; r < ranks.size(); ++r) lines.push_back(line("", r));
  return lines;
}

}  // namespace weft::report
