#include "train/summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "machine/predict.hpp"
#include "plan/report.hpp"
#include "plan/simulate.hpp"

namespace weft::train {
namespace {

constexpr std::size_t steps_kept = 1'000;
constexpr auto gather = static_cast<std::size_t>(Lane::gather);
constexpr auto reduce = static_cast<std::size_t>(Lane::reduce);
constexpr auto replica = static_cast<std::size_t>(Lane::replica);

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

double sum(const std::array<double, lane_count>& lanes) {
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}
/// The step cannot be shorter, however well the one hides under the other.
double bound(const StepParts& p) {
  return std::max(p.compute_only, p.wire);
}
double idle(const StepParts& p) {
  return std::max(0.0, p.step - p.compute - sum(p.exposed));
}
double stolen(const StepParts& p) {
  return std::max(0.0, p.compute - p.compute_only);
}
double rate(const StepParts& p) {
  const double seconds = sum(p.under_way);
  return seconds > 0 ? p.sent_bytes / seconds : 0;
}

/// Gathers and reductions share a link; sums over replicas may go over another.
double wire_seconds(const plan::Plan& plan, const machine::CostModel& costs) {
  double bytes = 0, replicas = 0;
  for (const ir::Node& node : plan.graph.nodes()) {
    if (!ir::is_collective(node.op)) continue;
    if (node.lane == Lane::replica) {
      replicas += costs.collective_seconds(plan.graph, node);
    } else {
      bytes += costs.bytes_sent(plan.graph, node);
    }
  }
  return std::max(bytes / costs.link_bytes_per_s(), replicas);
}

StepParts measured(const StepMetrics& m, const Summary::About& about) {
  StepParts p;
  p.step = m.step_s;
  p.compute_only = about.compute_only_s;
  p.compute = m.compute_s.value_or(0);
  p.under_way[gather] = m.gather_s.value_or(0);
  p.under_way[reduce] = m.reduce_s.value_or(0);
  p.under_way[replica] = m.replica_s.value_or(0);
  p.exposed[gather] = m.exposed_gather_s.value_or(0);
  p.exposed[reduce] = m.exposed_reduce_s.value_or(0);
  p.exposed[replica] = m.exposed_replica_s.value_or(0);
  p.sent_bytes = static_cast<double>(m.sent_bytes.value_or(0));
  const StepParts& planned = about.planned;
  p.wire = planned.sent_bytes > 0 ? planned.wire * p.sent_bytes / planned.sent_bytes : 0;
  p.memory_bytes = static_cast<double>(m.rss_bytes);
  return p;
}

enum class Unit : std::uint8_t { seconds, bytes, bytes_per_s };

std::string text(double value, Unit unit) {
  if (unit == Unit::seconds)
    return value >= 1 ? fmt::format("{:.3f} s", value) : fmt::format("{:.3f} ms", 1e3 * value);
  const std::string bytes = plan::bytes_text(static_cast<std::int64_t>(value));
  return unit == Unit::bytes ? bytes : bytes + "/s";
}

/// The lines, row by row, of some steps.
class Table {
 public:
  Table(const std::deque<StepParts>& steps, const StepParts& planned) : steps_(steps), planned_(planned) {}

  template <class Part>
  void row(const char* name, Part&& part, Unit unit = Unit::seconds) {
    std::vector<double> values;
    for (const StepParts& p : steps_) values.push_back(part(p));
    add(name, median(std::move(values)), part(planned_), unit);
  }
  void add(const char* name, double is, double should_be, Unit unit) {
    constexpr double nothing = 1e-9;  // differences of planned seconds leave as much
    const std::string ratio = should_be > nothing ? fmt::format("{:.2f}", is / should_be) : "-";
    line(name, text(is, unit), text(should_be, unit), ratio);
  }
  void line(std::string_view name, std::string_view is, std::string_view should_be, std::string_view ratio) {
    lines_.push_back(fmt::format("{:<42} {:>14} {:>14} {:>8}", name, is, should_be, ratio));
  }
  std::vector<std::string> finish() { return std::move(lines_); }

 private:
  const std::deque<StepParts>& steps_;
  const StepParts& planned_;
  std::vector<std::string> lines_;
};

}  // namespace

StepParts planned_step(const plan::Plan& plan, const machine::CostModel& costs) {
  const machine::LaneTimes times = plan::simulate(plan, costs);
  StepParts p;
  p.step = times.end;
  p.compute_only = machine::predict(plan.graph, costs).compute_s;
  p.compute = times.busy[static_cast<std::size_t>(Lane::compute)];
  for (const std::size_t lane : {gather, reduce, replica}) {
    p.under_way[lane] = times.busy[lane];
    p.exposed[lane] = times.exposed[lane];
  }
  for (const auto& [name, total] : plan::collective_totals(plan))
    p.sent_bytes += static_cast<double>(total.wire_bytes);
  p.wire = wire_seconds(plan, costs);
  return p;
}

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
  Table table(steps_, about_.planned);
  table.line(fmt::format("median of {} step{}", steps_.size(), steps_.size() == 1 ? "" : "s"), "measured",
             "planned", "ratio");
  table.row("  step", [](const StepParts& p) { return p.step; });
  if (!alone) table.row("  compute-only step", [](const StepParts& p) { return p.compute_only; });
  if (waits_seen_) table.row("  compute lane, busy", [](const StepParts& p) { return p.compute; });
  if (!alone) {
    if (waits_seen_) table.row("    of it stolen by communication", stolen);
    table.row("  gather lane, under way", [](const StepParts& p) { return p.under_way[gather]; });
    table.row("  reduce lane, under way", [](const StepParts& p) { return p.under_way[reduce]; });
    if (replicas)
      table.row("  replica lane, under way", [](const StepParts& p) { return p.under_way[replica]; });
    if (waits_seen_) {
      table.row("  exposed gathers", [](const StepParts& p) { return p.exposed[gather]; });
      table.row("  exposed reductions", [](const StepParts& p) { return p.exposed[reduce]; });
      if (replicas)
        table.row("  exposed sums over replicas", [](const StepParts& p) { return p.exposed[replica]; });
    }
  }
  if (waits_seen_) table.row("  idle and other", idle);
  if (!alone) {
    table.row("  wire: bytes sent at the link's rate", [](const StepParts& p) { return p.wire; });
    table.row("  bound: max(compute-only, wire)", bound);
    table.row(
        "  sent by a rank", [](const StepParts& p) { return p.sent_bytes; }, Unit::bytes);
    table.row("  rate while under way", rate, Unit::bytes_per_s);
  }
  table.add("  memory of a rank: resident, planned", peak_bytes_, about_.planned.memory_bytes, Unit::bytes);
  std::vector<std::string> lines = table.finish();
  lines.push_back(fmt::format("  planned with the machine profile: {}", about_.source));
  return lines;
}

}  // namespace weft::train
