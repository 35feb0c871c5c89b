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

void RankTimes::add(const exec::Times& times, double step_seconds) {
  if (!std::exchange(any_, true)) return;
  ++steps_;
  step_s_ += step_seconds;
  if (device_is_host()) {
    step_s_ -= std::accumulate(times.exposed.begin(), times.exposed.end(), 0.0);
  } else {
    under_way_s_ += std::accumulate(times.under_way.begin(), times.under_way.end(), 0.0);
  }
}

OwnSeconds RankTimes::collect() {
  const auto ranks = static_cast<std::size_t>(session_.ranks());
  const auto rank = static_cast<std::size_t>(session_.rank());
  OwnSeconds own{std::exchange(steps_, 0), std::vector<double>(2 * ranks)};
  own.seconds[rank] = std::exchange(step_s_, 0);
  own.seconds[ranks + rank] = std::exchange(under_way_s_, 0);
  session_.world().all_reduce_sum(own.seconds);
  const auto under_way = own.seconds.begin() + static_cast<std::ptrdiff_t>(ranks);
  const double least = *std::min_element(under_way, own.seconds.end());
  for (std::size_t r = 0; r < ranks; ++r)
    own.seconds[r] = (own.seconds[r] - (own.seconds[ranks + r] - least)) /
                     static_cast<double>(std::max<std::int64_t>(1, own.steps));
  own.seconds.resize(ranks);
  return own;
}

SlowRanks::SlowRanks(const std::string& path, std::optional<std::int64_t> resumed_at,
                     std::vector<std::string> hosts)
    : file_(io::prepare_step_lines(path, resumed_at)), hosts_(std::move(hosts)), seconds_(hosts_.size()) {}

std::string SlowRanks::name(std::size_t rank) const {
  return fmt::format("rank {} on {}", rank, hosts_[rank]);
}

std::string SlowRanks::add(std::int64_t step, const OwnSeconds& own) {
  if (own.steps == 0) return {};
  steps_ += own.steps;
  for (std::size_t r = 0; r < seconds_.size(); ++r)
    seconds_[r] += own.seconds[r] * static_cast<double>(own.steps);
  const auto ranks = by_seconds(own.seconds);
  const std::size_t slowest = ranks.back();
  const double most = own.seconds[slowest], median = own.seconds[median_of(ranks)];
  file_.append(
      fmt::format("{{\"step\": {}, \"steps\": {}, \"slowest\": {}, \"host\": \"{}\", \"own_s\": [{:.6g}]}}\n",
                  step, own.steps, slowest, hosts_[slowest], fmt::join(own.seconds, ", ")));
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
