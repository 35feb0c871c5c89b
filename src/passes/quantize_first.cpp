// The pass quantize_first: rows that a product wants in Float8 are gathered in it.
#include <utility>
#include <vector>

#include "ops/builder.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;
using namespace ir::operand;

class QuantizeFirst {
 public:
  explicit QuantizeFirst(const ir::Graph& before)
      : before_(before),
        after_(before.without_nodes()),
        b_(after_),
        readers_(before.values().size()),
        only_reader_(before.values().size()) {
    for (std::size_t i = 0; i < before.nodes().size(); ++i)
      for (const ValueId input : before.nodes()[i].inputs) {
        ++readers_[input.index()];
        only_reader_[input.index()] = ir::NodeId(i);
      }
  }

  ir::Graph run() {
    for (const Node& node : before_.nodes()) {
      if (node.op == Op::quantize && is_moved(before_.node(before_.value(node.in(quantize::x)).producer)))
        continue;
      if (is_moved(node))
        gather_quantized(node, before_.node(only_reader_[node.out(single::to).index()]));
      else
        after_.add_node(node);
    }
    return std::move(after_);
  }

 private:
  /// Whether it gathers rows over the tensor axis for quantisation alone, each with a scale of its own. Where
  /// a weight's gradient reads them, too, they are needed in bf16.
  bool is_moved(const Node& node) const {
    if (node.op != Op::all_gather || node.lane != Lane::tensor) return false;
    const std::size_t rows = node.out(single::to).index();
    if (readers_[rows] != 1) return false;
    const Node& reader = before_.node(only_reader_[rows]);
    return reader.op == Op::quantize && !reader.attributes.has(ir::Attr::tensorwise);
  }

  /// Quantises this rank's rows, and gathers them and their scales.
  void gather_quantized(const Node& gather, const Node& quantize) {
    b_.at(gather.phase, gather.round, gather.chunk);
    const std::string name = ops::stem(before_.value(quantize.out(quantize::x8)).name) + ".part";
    Node both = gather;
    both.inputs = b_.emit(Op::quantize, quantize.module, {gather.in(single::from)}, {name, name + ".scale"},
                          quantize.attributes);
    both.outputs = quantize.outputs;
    after_.add_node(std::move(both));
  }

  const ir::Graph& before_;
  ir::Graph after_;
  ops::Builder b_;
  std::vector<int> readers_;             ///< by value
  std::vector<ir::NodeId> only_reader_;  ///< by value: its last reader
};

}  // namespace

ir::Graph quantize_first(const ir::Graph& graph) {
  return QuantizeFirst(graph).run();
}

}  // namespace weft::passes
