// The pass share: marks collectives that ranks of one host make in shared memory.
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

/// Whether the value stands in the arena, and at the same place on all ranks.
bool stands_alike(const ir::Graph& graph, ValueId id) {
  for (ir::NodeId n = graph.value(id).producer; n.valid(); n = graph.value(id).producer) {
    const Node& producer = graph.node(n);
    if (producer.op == Op::rank_slice) return false;
    if (producer.op != Op::view) break;
    id = producer.in(ir::operand::single::from);
  }
  return !graph.value(id).home.valid();
}

template <class Holds>
bool all_members(const Node& node, Holds&& holds) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    if (!holds(i)) return false;
  return true;
}

/// How many ranks make the collective in the memory that they share; 1: none.
int team_of(const ir::Graph& graph, const Node& node, const Teams& teams) {
  const bool gathers = node.op == Op::all_gather;
  if (!gathers && node.op != Op::reduce_scatter) return 1;
  if (node.lane == Lane::tensor || node.lane == Lane::context) {
    const bool alike =
        all_members(node, [&](auto i) { return stands_alike(graph, ir::member_input(node, i)); });
    return !alike ? 1 : node.lane == Lane::tensor ? teams.tensor : teams.context;
  }
  if (node.lane != Lane::gather && node.lane != Lane::reduce) return 1;
  return all_members(
             node,
             [&](auto i) { return is_free(graph, gathers ? node.outputs[i] : ir::member_input(node, i)); })
             ? teams.data
             : 1;
}

}  // namespace

ir::Graph share(const ir::Graph& graph, const Teams& teams) {
  ir::Graph after = graph.without_nodes();
  std::map<ValueId, ValueId> whole_of;  // by a slice that is gathered in place: its first gather's result
  std::map<ValueId, ValueId> instead_of;
  for (Node node : graph.nodes()) {
    for (ValueId& input : node.inputs)
      if (const auto other = instead_of.find(input); other != instead_of.end()) input = other->second;
    if (const int team = team_of(graph, node, teams); team > 1) node.attributes.set(ir::Attr::team, team);
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
