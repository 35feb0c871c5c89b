#include "compile/stage_times.hpp"

#include <algorithm>

namespace weft::compile {

std::vector<pipe::StageTimes> stage_times(const plan::Plan& plan, const machine::LaneTimes& times,
                                          const machine::CostModel& costs, int chunks) {
  const double waits = of_tensor_lanes(times.exposed) + times.exposed[Lane::context];
  const double busy = times.busy[Lane::compute];
  const double slower = busy > 0 ? 1 + waits / busy : 1;
  std::vector<pipe::StageTimes> stages(static_cast<std::size_t>(chunks), {0, 0, 0});
  for (const ir::Node& node : plan.graph.nodes()) {
    if (ir::communicates(node.op) || node.round != 0 || node.phase == ir::Phase::update) continue;
    pipe::StageTimes& t = stages[static_cast<std::size_t>(node.chunk)];
    const double seconds = costs.kernel_seconds(plan.graph, node) * slower;
    if (node.phase == ir::Phase::forward) {
      t.forward += seconds;
    } else {
      t.input_grad += seconds / 2;
      t.weight_grad += seconds / 2;
    }
  }
  return stages;
}

double seconds_in_pipe(const StepTimes& alone, double idle) {
  return std::max(alone.seconds, alone.seconds - of_pipe_lanes(alone.exposed) + idle);
}

std::int64_t batch_bytes(const plan::Plan& plan) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < plan.graph.storages().size(); ++i) {
    const ir::Storage& s = plan.graph.storages()[i];
    if (plan.storage_used[i] && s.role == ir::Role::input && s.type.shape.size() == 2)
      bytes += plan.graph.local_bytes(s);
  }
  return bytes;
}

double message_seconds(const plan::Plan& plan, const machine::CostModel& costs) {
  double longest = 0;
  for (const ir::Node& node : plan.graph.nodes())
    if (ir::is_message(node.op)) longest = std::max(longest, costs.collective_seconds(plan.graph, node));
  return longest;
}

}  // namespace weft::compile
