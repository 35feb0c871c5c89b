// The pass share: marks collectives that ranks of one host make in shared memory.
#include <algorithm>
#include <map>

#include "ops/cost.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;

/// Whether the value is a unit that stands in the arena, and not in a storage.
bool is_free(const ir::Graph& graph, ValueId id) {
  return graph.value(id).unit.valid() && !graph.value(graph.alias_root(id)).home.valid();
}

bool can_share(const ir::Graph& graph, const Node& node) {
  if (node.op == Op::all_gather)
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId id) { return is_free(graph, id); });
  if (node.op != Op::reduce_scatter || node.lane != Lane::reduce) return false;
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    if (!is_free(graph, ir::member_input(node, i))) return false;
  return true;
}

}  // namespace

ir::Graph share(const ir::Graph& graph, int team) {
  ir::Graph after = graph.without_nodes();
  std::map<ValueId, ValueId> whole_of;  // by a slice that is gathered in place: its first gather's result
  std::map<ValueId, ValueId> instead_of;
  for (Node node : graph.nodes()) {
    for (ValueId& input : node.inputs)
      if (const auto other = instead_of.find(input); other != instead_of.end()) input = other->second;
    if (can_share(graph, node)) node.attributes.set(ir::Attr::team, team);
    if (ops::gathered_in_place(graph, node, 0).valid()) {
      const auto [first, is_new] = whole_of.emplace(ir::member_input(node, 0), node.outputs.front());
      if (!is_new) {  // the first gather's result still stands there
        instead_of[node.outputs.front()] = first->second;
        continue;
      }
    }
    after.add_node(std::move(node));
  }
  return after;
}

}  // namespace weft::passes
