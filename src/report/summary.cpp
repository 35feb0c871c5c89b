#include "report/summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/median.hpp"
#include "base/text.hpp"

namespace weft::report {
namespace {

constexpr std::size_t steps_kept = 1'000;
constexpr Lane gather = Lane::gather;
constexpr Lane reduce = Lane::reduce;
constexpr Lane replica = Lane::replica;
/// What is measured of the lanes of a pipe together stands at the first of them.
constexpr Lane stages = Lane::pipe;
constexpr Lane tensor = Lane::tensor;
constexpr Lane context = Lane::context;

double sum(const PerLane<double>& lanes) {
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}
/// The least that the step could take, however well compute and communication hide under each other.
double bound(const compile::StepParts& p) {
  return std::max(p.compute_only, p.wire);
}
double idle(const compile::StepParts& p) {
  return std::max(0.0, p.step - p.compute - sum(p.exposed));
}
double stolen(const compile::StepParts& p) {
  return std::max(0.0, p.compute - p.compute_only);
}
double rate(const compile::StepParts& p) {
  const double seconds = sum(p.under_way);
  return seconds > 0 ? p.sent_bytes / seconds : 0;
}

compile::StepParts measured(const StepMetrics& m, const Summary::About& about) {
  compile::StepParts p;
  p.step = m.step_s;
  p.compute_only = about.compute_only_s;
  p.compute = m.compute_s.value_or(0);
  p.under_way[gather] = m.gather_s.value_or(0);
  p.under_way[reduce] = m.reduce_s.value_or(0);
  p.under_way[replica] = m.replica_s.value_or(0);
  p.exposed[gather] = m.exposed_gather_s.value_or(0);
  p.exposed[reduce] = m.exposed_reduce_s.value_or(0);
  p.exposed[replica] = m.exposed_replica_s.value_or(0);
  p.under_way[stages] = m.pipe_s.value_or(0);
  p.exposed[stages] = m.exposed_pipe_s.value_or(0);
  p.under_way[tensor] = m.tensor_s.value_or(0);
  p.exposed[tensor] = m.exposed_tensor_s.value_or(0);
  p.under_way[context] = m.context_s.value_or(0);
  p.exposed[context] = m.exposed_context_s.value_or(0);
  p.sent_bytes = static_cast<double>(m.sent_bytes.value_or(0));
  const compile::StepParts& planned = about.planned;
  p.wire = planned.sent_bytes > 0 ? planned.wire * p.sent_bytes / planned.sent_bytes : 0;
  p.memory_bytes = static_cast<double>(m.rss_bytes);
  return p;
}

enum class Measure : std::uint8_t { seconds, bytes, bytes_per_s };

std::string text(double value, Measure measure) {
  if (measure == Measure::seconds)
    return value >= 1 ? fmt::format("{:.3f} s", value) : fmt::format("{:.3f} ms", 1e3 * value);
  const std::string bytes = bytes_text(static_cast<std::int64_t>(value));
  return measure == Measure::bytes ? bytes : bytes + "/s";
}

/// Makes the table for some steps, row by row.
class Table {
 public:
  /// Without `seconds_planned` the rows of seconds show only what was measured.
  Table(const std::deque<compile::StepParts>& steps, const compile::StepParts& planned, bool seconds_planned)
      : steps_(steps), planned_(planned), seconds_planned_(seconds_planned) {}

  template <class Part>
  void row(const char* name, Part&& part, Measure measure = Measure::seconds) {
    std::vector<double> values;
    for (const compile::StepParts& p : steps_) values.push_back(part(p));
    if (measure == Measure::bytes || seconds_planned_)
      add(name, median(std::move(values)), part(planned_), measure);
    else
      line(name, text(median(std::move(values)), measure), "", "");
  }
  void add(const char* name, double is, double should_be, Measure measure) {
    constexpr double nothing = 1e-9;  // differences of planned seconds may leave this much
    const std::string ratio = should_be > nothing ? fmt::format("{:.2f}", is / should_be) : "-";
    line(name, text(is, measure), text(should_be, measure), ratio);
  }
  void line(std::string_view name, std::string_view is, std::string_view should_be, std::string_view ratio) {
    const std::string line = fmt::format("{:<42} {:>14} {:>14} {:>8}", name, is, should_be, ratio);
    lines_.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  std::vector<std::string> finish() { return std::move(lines_); }

 private:
  const std::deque<compile::StepParts>& steps_;
  const compile::StepParts& planned_;
  bool seconds_planned_;
  std::vector<std::string> lines_;
};

}  // namespace

void Summary::add(const StepMetrics& metrics) {
  if (first_is_in_ || steps_.size() == steps_kept) steps_.pop_front();
  first_is_in_ = !any_;
  any_ = true;
  steps_.push_back(measured(metrics, about_));
  peak_bytes_ = std::max(peak_bytes_, steps_.back().memory_bytes);
  waits_seen_ = metrics.exposed_gather_s.has_value();
}

std::vector<std::string> Summary::lines() const {
  if (steps_.empty()) return {};
  const bool alone = about_.ranks == 1;
  const bool replicas = about_.planned.under_way[replica] > 0;
  const bool pipe = of_pipe_lanes(about_.planned.under_way) > 0;
  const bool cut = of_tensor_lanes(about_.planned.under_way) > 0;
  const bool shared = about_.planned.under_way[context] > 0;
  const bool profile = !about_.profile.empty();
  Table table(steps_, about_.planned, profile);
  table.line(fmt::format("median of {} step{}", steps_.size(), steps_.size() == 1 ? "" : "s"), "measured",
             "planned", "ratio");
  table.row("  step", [](const compile::StepParts& p) { return p.step; });
  if (!alone) table.row("  compute-only step", [](const compile::StepParts& p) { return p.compute_only; });
  if (waits_seen_) table.row("  compute lane, busy", [](const compile::StepParts& p) { return p.compute; });
  if (!alone) {
    if (waits_seen_) table.row("    of it stolen by communication", stolen);
    table.row("  gather lane, under way", [](const compile::StepParts& p) { return p.under_way[gather]; });
    table.row("  reduce lane, under way", [](const compile::StepParts& p) { return p.under_way[reduce]; });
    if (replicas)
      table.row("  replica lane, under way",
                [](const compile::StepParts& p) { return p.under_way[replica]; });
    if (pipe)
      table.row("  messages between stages, under way",
                [](const compile::StepParts& p) { return of_pipe_lanes(p.under_way); });
    if (cut)
      table.row("  tensor lane, under way",
                [](const compile::StepParts& p) { return of_tensor_lanes(p.under_way); });
    if (shared)
      table.row("  context lane, under way",
                [](const compile::StepParts& p) { return p.under_way[context]; });
    if (waits_seen_) {
      table.row("  exposed gathers", [](const compile::StepParts& p) { return p.exposed[gather]; });
      table.row("  exposed reductions", [](const compile::StepParts& p) { return p.exposed[reduce]; });
      if (replicas)
        table.row("  exposed sums over replicas",
                  [](const compile::StepParts& p) { return p.exposed[replica]; });
      if (pipe)
        table.row("  waits for other stages",
                  [](const compile::StepParts& p) { return of_pipe_lanes(p.exposed); });
      if (cut)
        table.row("  exposed collectives of tensor",
                  [](const compile::StepParts& p) { return of_tensor_lanes(p.exposed); });
      if (shared)
        table.row("  exposed collectives of context",
                  [](const compile::StepParts& p) { return p.exposed[context]; });
    }
  }
  if (waits_seen_) table.row("  idle and other", idle);
  if (!alone) {
    if (profile) {  // the link's rate comes from the profile
      table.row("  wire: bytes sent at the link's rate", [](const compile::StepParts& p) { return p.wire; });
      table.row("  bound: max(compute-only, wire)", bound);
    }
    table.row(
        "  sent by a rank", [](const compile::StepParts& p) { return p.sent_bytes; }, Measure::bytes);
    table.row("  rate while under way", rate, Measure::bytes_per_s);
  }
  table.add("  memory of a rank: resident, planned", peak_bytes_, about_.planned.memory_bytes,
            Measure::bytes);
  std::vector<std::string> lines = table.finish();
  lines.push_back(profile ? fmt::format("  planned with the machine profile: {}", about_.profile)
                          : "  no seconds are planned without a profile of this machine: weft profile "
                            "measures one, schedule.profile names it");
  return lines;
}

}  // namespace weft::report
