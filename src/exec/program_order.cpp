#include "exec/program_order.hpp"

#include <limits>

namespace weft::exec {
namespace {

ir::UnitId unit_of(const ir::Graph& graph, const ir::Node& node) {
  return node.outputs.empty() ? ir::UnitId{} : graph.value(node.outputs.front()).unit;
}

int section_of(const ir::Node& node) {
  if (node.phase == ir::Phase::update) return std::numeric_limits<int>::max();
  return 1 + 2 * node.round + (node.phase == ir::Phase::backward ? 1 : 0);
}

}  // namespace

ProgramOrder::ProgramOrder(const ir::Graph& graph, const StagePlaces& pipe, int pipe_rank) {
  const auto stage_of_chunk = [&](int chunk) { return pipe.stage(pipe_rank, chunk); };
  // A unit belongs to the stage whose nodes read its parameters: those of the update have no stage.
  std::vector<int> stage_of_unit(graph.units().size(), stage_of_chunk(0));
  for (const ir::Node& node : graph.nodes())
    if (node.op == ir::Op::view)
      stage_of_unit[graph.value(node.in(ir::operand::single::from)).unit.index()] =
          stage_of_chunk(node.chunk);
  for (const ir::Node& node : graph.nodes()) {
    const ir::UnitId unit = unit_of(graph, node);
    stages_.push_back(unit.valid() ? stage_of_unit[unit.index()] : stage_of_chunk(node.chunk));
    int number = node.phase == ir::Phase::backward ? -stages_.back() : stages_.back();
    // What all stages do in the update, the sums over them and clipping, comes before what each does alone.
    if (node.phase == ir::Phase::update && !unit.valid()) number = -1;
    places_.push_back({section_of(node), number, static_cast<std::int64_t>(places_.size())});
  }
}

}  // namespace weft::exec
