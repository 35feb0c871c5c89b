// The pass context: attention reads keys and values of whole sequences, of which each rank makes a part.
#include <string>
#include <utility>

#include "ops/builder.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Attr;
using ir::Node;
using ir::Op;
using ir::ValueId;
using namespace ir::operand;

class ContextPass {
 public:
  explicit ContextPass(const ir::Graph& before)
      : before_(before),
        after_(before.without_nodes()),
        b_(after_),
        ranks_(before.mesh().size(context_axis)),
        axis_(before.mesh().axis(context_axis)) {}

  ir::Graph run() {
    for (Node node : before_.nodes()) {
      if (node.op == Op::attention) {
        b_.at(node.phase, node.round, node.chunk);
        // Both are under way before anything waits for one of them.
        const ValueId k = gathered(node.module, node.in(attention::k)),
                      v = gathered(node.module, node.in(attention::v));
        node.in(attention::k) = in_order(node.module, k, node.in(attention::k));
        node.in(attention::v) = in_order(node.module, v, node.in(attention::v));
        node.attributes.set(Attr::axis, axis_);
      }
      after_.add_node(std::move(node));
    }
    return std::move(after_);
  }

 private:
  /// The sections of all ranks.
  ValueId gathered(const std::string& module, ValueId own) {
    ir::Type type = after_.value(own).type;
    type.shape[0] *= ranks_;
    return b_.over_axis(Op::all_gather, {axis_, Lane::context}, module, own, std::move(type),
                        ops::stem(after_.value(own).name) + ".sections");
  }
  /// Whole sequences, of the sections of all ranks; `own` are those of this one.
  ValueId in_order(const std::string& module, ValueId sections, ValueId own) {
    return b_.emit_one(Op::merge_sections, module, {sections}, ops::stem(after_.value(own).name) + ".whole",
                       {{Attr::axis, double(axis_)}});
  }

  const ir::Graph& before_;
  ir::Graph after_;
  ops::Builder b_;
  int ranks_, axis_;
};

}  // namespace

ir::Graph context(const ir::Graph& graph) {
  return ContextPass(graph).run();
}

}  // namespace weft::passes
