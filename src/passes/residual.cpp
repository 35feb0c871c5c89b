// The pass residual: joins an add and the norm behind it.
#include <utility>
#include <vector>

#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;
using namespace ir::operand;

/// The add that makes what `norm` reads, if nothing runs between the two, and both are of one stage of a
/// pipe.
NodeId add_before(const ir::Graph& graph, std::size_t norm) {
  const NodeId producer = graph.value(graph.nodes()[norm].in(rms_norm::x)).producer;
  if (graph.node(producer).op != Op::add || graph.node(producer).chunk != graph.nodes()[norm].chunk)
    return {};
  for (std::size_t between = producer.index() + 1; between < norm; ++between)
    if (!ir::is_alias(graph.nodes()[between].op)) return {};
  return producer;
}

}  // namespace

ir::Graph residual(const ir::Graph& graph) {
  const std::vector<Node>& nodes = graph.nodes();
  std::vector<NodeId> add_of(nodes.size());
  std::vector<bool> gone(nodes.size(), false);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].op != Op::rms_norm) continue;
    add_of[i] = add_before(graph, i);
    if (add_of[i].valid()) gone[add_of[i].index()] = true;
  }
  ir::Graph after = graph.without_nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (gone[i]) continue;
    Node node = nodes[i];
    if (add_of[i].valid()) {
      const Node& sum = graph.node(add_of[i]);
      node.op = Op::add_rms_norm;
      node.inputs = {sum.in(add::a), sum.in(add::b), node.in(rms_norm::w)};
      node.outputs = {sum.out(add::sum), node.out(rms_norm::y), node.out(rms_norm::rstd)};
    }
    after.add_node(std::move(node));
  }
  return after;
}

}  // namespace weft::passes
