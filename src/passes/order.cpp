// The pass order: decides when collectives begin, and how long their operands are held.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/cost.hpp"
#include "passes/collectives.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::NodeId;

class OrderPass {
 public:
  OrderPass(const ir::Graph& before, const OrderOptions& options)
      : before_(before), options_(options), emitted_(before.nodes().size(), false) {
    for (std::size_t i = 0; i < before.nodes().size(); ++i)
      if (is_parameter_gather(before.nodes()[i])) gathers_.push_back(NodeId(i));
  }

  ir::Graph run() {
    std::size_t next = 0;  // the next gather in program order
    for (std::size_t i = 0; i < before_.nodes().size(); ++i) {
      if (next < gathers_.size() && gathers_[next] == NodeId(i)) emit_ahead(next++);
      emit(NodeId(i));
    }
    return emit_held();
  }

 private:
  /// Emits gather `first`, and as many of the gathers after it as the options allow.
  void emit_ahead(std::size_t first) {
    std::int64_t ahead = 0;
    for (std::size_t g = first;
         g < gathers_.size() && g <= first + static_cast<std::size_t>(options_.prefetch); ++g) {
      if (g > first) ahead += ops::copied_bytes(before_, before_.node(gathers_[g]));
      if (options_.prefetch_bytes > 0 && ahead > options_.prefetch_bytes) return;
      for (ir::ValueId shard : before_.node(gathers_[g]).inputs) emit(before_.value(shard).producer);
      emit(gathers_[g]);
    }
  }

  void emit(NodeId id) {
    if (emitted_[id.index()]) return;
    emitted_[id.index()] = true;
    order_.push_back(id);
  }

  /// Notes how long each collective's inputs and scratch are held: until the last of `delay` more collectives
  /// of its lane begins, but at most for longest_hold nodes. That last one may overwrite them, because a
  /// lane's collectives run in order.
  ir::Graph emit_held() const {
    ir::Graph after = before_.without_nodes();
    for (std::size_t i = 0; i < order_.size(); ++i) {
      Node node = before_.node(order_[i]);
      if (ir::communicates(node.op) && options_.delay > 0) {
        // A stage that is behind takes its messages late, so what they carry is held for as long as it takes.
        const std::size_t longest = ir::is_message(node.op) ? order_.size() : longest_hold(options_.delay);
        const std::size_t end = std::min(order_.size() - 1, i + longest);
        std::size_t until = i, later = 0;
        while (until < end) {
          later += before_.node(order_[until + 1]).lane == node.lane ? 1 : 0;
          if (later == static_cast<std::size_t>(options_.delay)) break;
          ++until;
        }
        node.attributes.set(ir::Attr::hold, static_cast<double>(until - i));
      }
      after.add_node(std::move(node));
    }
    return after;
  }

  const ir::Graph& before_;
  OrderOptions options_;
  std::vector<NodeId> gathers_;
  std::vector<bool> emitted_;
  std::vector<NodeId> order_;
};

}  // namespace

ir::Graph order(const ir::Graph& graph, const OrderOptions& options) {
  return OrderPass(graph, options).run();
}

}  // namespace weft::passes
