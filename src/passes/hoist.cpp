// The pass hoist: weight gradients wait until a collective between activations has something to hide under.
#include <deque>
#include <vector>

#include "passes/collectives.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Phase;
using ir::ValueId;

class HoistPass {
 public:
  HoistPass(const ir::Graph& before, const HoistOptions& options)
      : before_(before),
        options_(options),
        waits_(before.values().size(), false),
        open_(before.values().size(), false) {}

  ir::Graph run() {
    const auto& nodes = before_.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (i > 0 && !belong_together(nodes[i - 1], nodes[i])) emit_all();
      visit(NodeId(i));
    }
    emit_all();
    ir::Graph after = before_.without_nodes();
    for (const NodeId id : order_) after.add_node(before_.node(id));
    return after;
  }

 private:
  /// Whether both belong to the same forward or backward of one microbatch in one stage: what waits does not
  /// leave it.
  static bool belong_together(const Node& a, const Node& b) {
    return a.phase == b.phase && a.round == b.round && a.chunk == b.chunk;
  }

  void visit(NodeId id) {
    const Node& node = before_.node(id);
    const bool is_weight_gradient = node.phase == Phase::backward && node.op == Op::matmul_wgrad;
    if (is_weight_gradient || reads(node, waits_)) {
      waiting_.push_back(id);
      for (const ValueId output : node.outputs) waits_[output.index()] = true;
      weight_gradients_ += is_weight_gradient ? 1 : 0;
      while (weight_gradients_ > options_.depth) emit_first();
      return;
    }
    for (const ValueId input : node.inputs) {
      if (!open_[input.index()]) continue;
      open_[input.index()] = false;
      for (int i = 0; i < options_.each; ++i) emit_first();
    }
    if (is_between_activations(node))
      for (const ValueId output : node.outputs) open_[output.index()] = true;
    order_.push_back(id);
  }

  bool reads(const Node& node, const std::vector<bool>& which) const {
    for (const ValueId input : node.inputs)
      if (which[input.index()]) return true;
    return false;
  }

  /// Emits the first weight gradient that waits, with what needs no later one.
  void emit_first() {
    bool any = false;
    while (!waiting_.empty()) {
      const NodeId id = waiting_.front();
      const bool is_weight_gradient = before_.node(id).op == Op::matmul_wgrad;
      if (is_weight_gradient && any) return;
      any = true;
      weight_gradients_ -= is_weight_gradient ? 1 : 0;
      for (const ValueId output : before_.node(id).outputs) waits_[output.index()] = false;
      order_.push_back(id);
      waiting_.pop_front();
    }
  }

  void emit_all() {
    while (!waiting_.empty()) emit_first();
  }

  const ir::Graph& before_;
  HoistOptions options_;
  std::deque<NodeId> waiting_;  ///< weight gradients, and what is made of them
  int weight_gradients_ = 0;    ///< how many of them there are among those
  std::vector<bool> waits_;     ///< by value: what makes it waits
  std::vector<bool> open_;      ///< by value: a collective makes it under which nothing was put yet
  std::vector<NodeId> order_;
};

}  // namespace

ir::Graph hoist(const ir::Graph& graph, const HoistOptions& options) {
  return HoistPass(graph, options).run();
}

}  // namespace weft::passes
