#include "compile/planned_step.hpp"

#include <algorithm>

#include "machine/predict.hpp"
#include "plan/report.hpp"
#include "plan/simulate.hpp"

namespace weft::compile {
namespace {

/// Seconds that the links need for all bytes. Gathers and reductions share a link; sums over replicas may use
/// another.
double wire_seconds(const plan::Plan& plan, const machine::CostModel& costs) {
  double bytes = 0, replicas = 0;
  for (const ir::Node& node : plan.graph.nodes()) {
    if (!ir::communicates(node.op)) continue;
    if (node.lane == Lane::replica) {
      replicas += costs.collective_seconds(plan.graph, node);
    } else {
      bytes += costs.bytes_sent(plan.graph, node);
    }
  }
  return std::max(bytes / costs.link_bytes_per_s(), replicas);
}

}  // namespace

StepParts planned_step(const plan::Plan& plan, const machine::CostModel& costs) {
  const machine::LaneTimes times = plan::simulate(plan, costs);
  StepParts p;
  p.step = times.end;
  p.compute_only = machine::predict(plan.graph, costs).compute_s;
  p.compute = times.busy[Lane::compute];
  for (const Lane lane : communication_lanes) {
    p.under_way[lane] = times.busy[lane];
    p.exposed[lane] = times.exposed[lane];
  }
  for (const auto& [name, total] : plan::collective_totals(plan))
    p.sent_bytes += static_cast<double>(total.wire_bytes);
  p.wire = wire_seconds(plan, costs);
  return p;
}

}  // namespace weft::compile
