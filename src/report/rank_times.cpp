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

/// The element in the middle; where their number is even, the lower of the two in the middle.
template <class T>
T middle_of(const std::vector<T>& sorted) {
  return sorted[(sorted.size() - 1) / 2];
}

}  // namespace

std::vector<RankPlace> places_of(runtime::Session& session) {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < session.ranks(); ++rank)
    places.push_back(
        {session.world().hosts()[static_cast<std::size_t>(rank)], session.mesh().pipe_rank(rank)});
  return places;
}

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

SlowRanks::SlowRanks(std::string path, std::optional<std::int64_t> resumed_at, std::vector<RankPlace> places)
    : path_(std::move(path)),
      file_(io::prepare_step_lines(path_, resumed_at)),
      places_(std::move(places)),
      seconds_(places_.size()) {
  for (const RankPlace& place : places_) ++ranks_of_place_[place.pipe_rank];
}

void SlowRanks::go_back(std::int64_t step) {
  file_.emplace(io::prepare_step_lines(path_, step));
}

std::string SlowRanks::name(std::size_t rank) const {
  const RankPlace& place = places_[rank];
  const bool pipe = ranks_of_place_.size() > 1;
  return fmt::format("rank {} on {}{}", rank, place.host,
                     pipe ? fmt::format(" (pipe {})", place.pipe_rank) : "");
}

std::vector<double> SlowRanks::medians_of_places(const std::vector<double>& seconds) const {
  std::map<int, std::vector<double>> of_place;
  for (const std::size_t rank : by_seconds(seconds))
    of_place[places_[rank].pipe_rank].push_back(seconds[rank]);
  std::vector<double> medians;
  for (const RankPlace& place : places_) medians.push_back(middle_of(of_place.at(place.pipe_rank)));
  return medians;
}

std::optional<std::size_t> SlowRanks::find_slowest(const std::vector<double>& seconds,
                                                   const std::vector<double>& medians) const {
  std::optional<std::size_t> slowest;
  for (std::size_t r = 0; r < seconds.size(); ++r) {
    if (ranks_of_place_.at(places_[r].pipe_rank) == 1) continue;
    if (!slowest || seconds[r] * medians[*slowest] > seconds[*slowest] * medians[r]) slowest = r;
  }
  return slowest;
}

std::string SlowRanks::add(std::int64_t step, const RankFigures& own) {
  if (own.steps == 0) return {};
  steps_ += own.steps;
  for (std::size_t r = 0; r < seconds_.size(); ++r)
    seconds_[r] += own.seconds[r] * static_cast<double>(own.steps);
  const std::vector<double> medians = medians_of_places(own.seconds);
  const std::optional<std::size_t> slowest = find_slowest(own.seconds, medians);
  std::vector<std::int64_t> resident, planned;
  for (const MemoryBytes& memory : own.memory) {
    resident.push_back(memory.resident);
    planned.push_back(memory.planned);
  }
  file_->append(
      fmt::format("{{\"step\": {}, \"steps\": {}, \"slowest\": {}, \"host\": {}, \"own_s\": [{:.6g}], "
                  "\"rss_bytes\": [{}], "
                  "\"planned_bytes\": [{}]}}\n",
                  step, own.steps, slowest ? std::to_string(*slowest) : "null",
                  slowest ? fmt::format("\"{}\"", places_[*slowest].host) : "null",
                  fmt::join(own.seconds, ", "), fmt::join(resident, ", "), fmt::join(planned, ", ")));
  if (!slowest || own.seconds[*slowest] <= notable * medians[*slowest]) return {};
  return fmt::format("slow: {} takes {:.4g} s of a step for itself, the median rank{} {:.4g} s",
                     name(*slowest), own.seconds[*slowest], ranks_of_place_.size() > 1 ? " of its place" : "",
                     medians[*slowest]);
}

std::vector<std::string> SlowRanks::lines() const {
  if (steps_ == 0) return {};
  const auto ranks = by_seconds(seconds_);
  const auto line = [&](const char* what, std::size_t rank) {
    return fmt::format("  {:<40} {:>14}", fmt::format("{}{}", what, name(rank)),
                       fmt::format("{:.4g} s", seconds_[rank] / static_cast<double>(steps_)));
  };
  std::vector<std::string> lines{
      fmt::format("mean of {} steps, without waiting for others{}", steps_,
                  ranks_of_place_.size() > 1 ? "; the stages of a pipe have other work each" : ""),
      line("slowest: ", ranks.back()), line("median: ", middle_of(ranks)), line("fastest: ", ranks.front())};
  if (ranks.size() > 3 && ranks.size() <= listed_ranks)
    for (std::size_t r = 0; r < ranks.size(); ++r) lines.push_back(line("", r));
  return lines;
}

}  // namespace weft::report
