#include <algorithm>
#include <cstdint>
#include <vector>

#include "passes/collectives.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::NodeId;

class OrderPass {
 public:
  OrderPass(const ir::Graph& before, const OrderOptions& options)
      : before_(before),
        after_(before.without_nodes()),
        options_(options),
        emitted_(before.nodes().size(), false) {
    for (std::size_t i = 0; i < before.nodes().size(); ++i)
      if (is_parameter_gather(before.nodes()[i])) gathers_.push_back(NodeId(i));
  }

  ir::Graph run() {
    std::size_t next = 0;  // the next gather in program order
    for (std::size_t i = 0; i < before_.nodes().size(); ++i) {
      if (next < gathers_.size() && gathers_[next] == NodeId(i)) emit_ahead(next++);
      emit(NodeId(i));
    }
    return hold(after_);
  }

 private:
  /// Emits gather `first` and as many of the next as the options allow.
  void emit_ahead(std::size_t first) {
    std::int64_t ahead = 0;
    for (std::size_t g = first;
         g < gathers_.size() && g <= first + static_cast<std::size_t>(options_.prefetch); ++g) {
      if (g > first) ahead += bytes(before_.node(gathers_[g]));
      if (options_.prefetch_bytes > 0 && ahead > options_.prefetch_bytes) return;
      for (ir::ValueId shard : before_.node(gathers_[g]).inputs) emit(before_.value(shard).producer);
      emit(gathers_[g]);
    }
  }
  std::int64_t bytes(const Node& gather) const {
    std::int64_t sum = 0;
    for (ir::ValueId output : gather.outputs) sum += before_.local_bytes(output);
    return sum;
  }

  void emit(NodeId id) {
    if (emitted_[id.index()]) return;
    emitted_[id.index()] = true;
    after_.add_node(before_.node(id));
  }

  /// Each collective's inputs and scratch stay until `delay` more of its lane have begun, at most for
  /// longest_hold.
  ir::Graph hold(const ir::Graph& ordered) const {
    ir::Graph held = ordered.without_nodes();
    const std::vector<Node>& nodes = ordered.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      Node node = nodes[i];
      if (ir::is_collective(node.op) && options_.delay > 0) {
        const std::size_t end = std::min(nodes.size() - 1, i + longest_hold(options_.delay));
        std::size_t until = i, later = 0;
        while (until < end && later < static_cast<std::size_t>(options_.delay))
          later += nodes[++until].lane == node.lane ? 1 : 0;
        node.attributes.set(ir::Attr::hold, static_cast<double>(until - i));
      }
      held.add_node(std::move(node));
    }
    return held;
  }

  const ir::Graph& before_;
  ir::Graph after_;
  OrderOptions options_;
  std::vector<NodeId> gathers_;
  std::vector<bool> emitted_;
};

}  // namespace

ir::Graph order(const ir::Graph& graph, const OrderOptions& options) {
  return OrderPass(graph, options).run();
}

}  // namespace weft::passes
