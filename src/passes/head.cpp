// The pass head: computes logits, loss and their gradients some tokens at a time.
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;
using namespace ir::operand;

/// The head of one round: the nodes that a single one replaces.
struct Head {
  NodeId matmul, loss;
  std::optional<NodeId> gradient, dgrad, wgrad;  ///< the backward's nodes, in a training step
};

class HeadPass {
 public:
  HeadPass(const ir::Graph& before, std::int64_t rows)
      : before_(before), after_(before.without_nodes()), rows_(rows), readers_(before.values().size()) {
    for (std::size_t i = 0; i < before.nodes().size(); ++i)
      for (ValueId input : before.nodes()[i].inputs) readers_[input.index()].push_back(NodeId(i));
  }

  ir::Graph run() {
    for (std::size_t i = 0; i < before_.nodes().size(); ++i)
      if (before_.nodes()[i].op == Op::cross_entropy) find(NodeId(i));
    for (std::size_t i = 0; i < before_.nodes().size(); ++i) {
      const auto head = heads_.find(NodeId(i));
      if (head != heads_.end()) {
        emit(head->second);
      } else if (!replaced_.contains(NodeId(i))) {
        after_.add_node(before_.nodes()[i]);
      }
    }
    return std::move(after_);
  }

 private:
  void find(NodeId loss) {
    if (before_.node(loss).has(cross_entropy::parts)) return;  // its gradient needs the logits of all ranks
    const ValueId logits = before_.node(loss).in(cross_entropy::logits);
    Head head{before_.value(logits).producer, loss, {}, {}, {}};
    if (before_.node(head.matmul).op != Op::matmul || before_.value(logits).home.valid()) return;
    for (const NodeId reader : readers_[logits.index()])
      if (reader != loss) {
        if (before_.node(reader).op != Op::cross_entropy_grad || head.gradient) return;
        head.gradient = reader;
      }
    if (head.gradient && !find_gradients(head)) return;
    for (const NodeId node : {head.matmul, loss}) replaced_.insert(node);
    if (head.gradient)
      for (const NodeId node : {*head.dgrad, *head.wgrad}) replaced_.insert(node);
    // The new node stands where the gradients are made. Nodes that read the totals come later still.
    heads_.emplace(head.gradient.value_or(loss), head);
  }

  bool find_gradients(Head& head) const {
    const ValueId dlogits = before_.node(*head.gradient).out(cross_entropy_grad::dlogits);
    for (const NodeId reader : readers_[dlogits.index()]) {
      const Node& node = before_.node(reader);
      if (node.op == Op::matmul_dgrad && !node.has(matmul_dgrad::so_far)) head.dgrad = reader;
      if (node.op == Op::matmul_wgrad) head.wgrad = reader;
    }
    return head.dgrad && head.wgrad && readers_[dlogits.index()].size() == 2;
  }

  void emit(const Head& head) {
    const Node& product = before_.node(head.matmul);
    const Node& loss = before_.node(head.loss);
    Node node = head.gradient ? before_.node(*head.gradient) : loss;
    node.op = head.gradient ? Op::linear_cross_entropy_grad : Op::linear_cross_entropy;
    node.module = product.module;
    node.inputs = {product.in(matmul::x), product.in(matmul::w), loss.in(cross_entropy::targets)};
    node.outputs = {loss.out(cross_entropy::totals)};
    if (head.gradient) {
      node.outputs.push_back(before_.node(*head.dgrad).out(matmul_dgrad::dx));
      node.outputs.push_back(before_.node(*head.wgrad).out(matmul_wgrad::dw));
    }
    node.attributes.set(ir::Attr::rows, static_cast<double>(rows_));
    after_.add_node(std::move(node));
  }

  const ir::Graph& before_;
  ir::Graph after_;
  std::int64_t rows_;
  std::vector<std::vector<NodeId>> readers_;  ///< the nodes that read each value
  std::map<NodeId, Head> heads_;              ///< by the node in whose place the new one stands
  std::set<NodeId> replaced_;
};

}  // namespace

ir::Graph head(const ir::Graph& graph, std::int64_t rows) {
  return HeadPass(graph, rows).run();
}

}  // namespace weft::passes
