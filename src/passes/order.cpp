#include <vector>

#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Op;

/// A gather of parameters for use in forward or backward: not the one that completes an update, not the
/// losses'.
bool is_parameter_gather(const Node& node) {
  return node.op == Op::all_gather && node.lane == Lane::gather && node.phase != ir::Phase::update;
}

}  // namespace

ir::Graph order(const ir::Graph& before, int prefetch) {
  ir::Graph after = before.without_nodes();
  std::vector<std::size_t> gathers;
  for (std::size_t i = 0; i < before.nodes().size(); ++i)
    if (is_parameter_gather(before.nodes()[i])) gathers.push_back(i);

  std::vector<bool> emitted(before.nodes().size(), false);
  const auto emit = [&](std::size_t i) {
    if (emitted[i]) return;
    emitted[i] = true;
    after.add_node(before.nodes()[i]);
  };
  std::size_t next = 0;  // the next gather in program order
  for (std::size_t i = 0; i < before.nodes().size(); ++i) {
    if (next < gathers.size() && gathers[next] == i) {
      const std::size_t end = std::min(gathers.size(), next + 1 + static_cast<std::size_t>(prefetch));
      for (std::size_t g = next; g < end; ++g) {
        for (ir::ValueId shard : before.nodes()[gathers[g]].inputs)
          emit(before.value(shard).producer.index());  // its state
        emit(gathers[g]);
      }
      ++next;
    }
    emit(i);
  }
  return after;
}

}  // namespace weft::passes
