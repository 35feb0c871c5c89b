#include "plan/simulate.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "ops/cost.hpp"

namespace weft::plan {

machine::LaneTimes simulate(const Plan& plan, const machine::CostModel& costs) {
  const bool host_submits = costs.profile().compute.threads > 0;
  machine::LaneTasks tasks;
  for (const Instruction& instruction : plan.instructions) {
    const ir::Node& node = plan.graph.node(instruction.node);
    machine::LaneTask task;
    for (const Wait& wait : instruction.waits)
      task.after[wait.lane] = static_cast<std::uint32_t>(wait.sequence);
    if (instruction.lane == Lane::compute) {
      task.seconds = costs.kernel_seconds(plan.graph, node);
    } else {
      task.seconds = costs.collective_seconds(plan.graph, node);
      task.bytes = costs.bytes_sent(plan.graph, node);
      task.link = costs.link_of(plan.graph, node);
      std::uint32_t& kernels = task.after[Lane::compute];
      if (host_submits) kernels = std::max(kernels, static_cast<std::uint32_t>(tasks[Lane::compute].size()));
    }
    tasks[instruction.lane].push_back(task);
  }
  return run_lanes(tasks, costs);
}

std::string timeline_text(const machine::LaneTimes& times) {
  std::string text = fmt::format("\n{:<38} {:>22}\n", "predicted step, lanes overlapped", "seconds");
  const auto row = [&](const std::string& name, double seconds) {
    text += fmt::format("  {:<36} {:>22.6f}\n", name, seconds);
  };
  row("step", times.end);
  row("compute lane busy", times.busy[Lane::compute]);
  const auto shown = [&](Lane lane) {
    return lane == Lane::gather || lane == Lane::reduce || times.busy[lane] > 0;
  };
  for (const Lane lane : communication_lanes)
    if (shown(lane)) row(fmt::format("{} lane busy", name_of(lane)), times.busy[lane]);
  row("exposed gathers", times.exposed[Lane::gather]);
  row("exposed reductions", times.exposed[Lane::reduce]);
  if (shown(Lane::replica)) row("exposed sums over replicas", times.exposed[Lane::replica]);
  if (const double messages = of_pipe_lanes(times.exposed); messages > 0)
    row("exposed messages between stages", messages);
  if (const double tensor = of_tensor_lanes(times.exposed); tensor > 0)
    row("exposed collectives of tensor", tensor);
  if (shown(Lane::context)) row("exposed collectives of context", times.exposed[Lane::context]);
  return text;
}

}  // namespace weft::plan
