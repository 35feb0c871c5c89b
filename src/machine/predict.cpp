#include "machine/predict.hpp"

#include <fmt/core.h>

namespace weft::machine {

Prediction predict(const ir::Graph& graph, const CostModel& model) {
  Prediction sum;
  for (const ir::Node& node : graph.nodes()) {
    if (ir::is_alias(node.op)) continue;
    if (ir::communicates(node.op)) {
      sum.lanes_s[node.lane] += model.collective_seconds(graph, node);
      continue;
    }
    ++sum.kernels;
    if (model.is_measured(graph, node)) ++sum.measured;
    sum.compute_s += model.kernel_seconds(graph, node);
  }
  return sum;
}

std::string prediction_text(const Prediction& p, const CostModel& model, const std::string& source) {
  std::string text = fmt::format("\n{:<38} {:>22}\n", "predicted seconds of a rank and step", "each alone");
  const auto row = [&](const std::string& name, double seconds) {
    text += fmt::format("  {:<36} {:>22.6f}\n", name, seconds);
  };
  row("compute, sum of kernels", p.compute_s);
  for (const Lane lane : communication_lanes)
    if (lane == Lane::gather || lane == Lane::reduce || p.lanes_s[lane] > 0)
      row(fmt::format("{} lane, sum of {}", name_of(lane),
                      is_between_stages(lane) ? "messages" : "collectives"),
          p.lanes_s[lane]);
  text += fmt::format("  from {} ({}, {:016x}); {} of {} kernels measured\n", source, model.profile().name,
                      hash_of(model.profile()), p.measured, p.kernels);
  return text;
}

}  // namespace weft::machine
