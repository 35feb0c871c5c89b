#include <algorithm>

#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;

/// It stands in the arena, not in a storage of its own.
bool is_free(const ir::Graph& graph, ValueId id) {
  return graph.value(id).unit.valid() && !graph.value(graph.alias_root(id)).home.valid();
}

bool can_share(const ir::Graph& graph, const Node& node) {
  const auto all_free = [&](auto begin, auto end) {
    return std::all_of(begin, end, [&](ValueId id) { return is_free(graph, id); });
  };
  if (node.op == Op::all_gather) return all_free(node.outputs.begin(), node.outputs.end());
  const auto members = static_cast<std::ptrdiff_t>(node.outputs.size());
  return node.op == Op::reduce_scatter && node.lane == Lane::reduce &&
         all_free(node.inputs.begin(), node.inputs.begin() + members);
}

}  // namespace

ir::Graph share(const ir::Graph& graph, int team) {
  ir::Graph after = graph.without_nodes();
  for (Node node : graph.nodes()) {
    if (can_share(graph, node)) node.attributes.set(ir::Attr::team, team);
    after.add_node(std::move(node));
  }
  return after;
}

}  // namespace weft::passes
