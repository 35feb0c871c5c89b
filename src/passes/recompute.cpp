// The pass recompute: lets backward make forward values again instead of keeping them.
#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "passes/module_path.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::Phase;
using ir::ValueId;

bool matches(const RecomputeRule& rule, const Node& node) {
  // A rule for matmuls also means those by weights [in, out], and those in Float8.
  const bool kind_of_matmul =
      rule.op == Op::matmul && (node.op == Op::matmul_dgrad || ir::is_float8_product(node.op));
  return (!rule.op || *rule.op == node.op || kind_of_matmul) &&
         matched_part(rule.module, node.module).has_value();
}

/// The name of a copy: "layers.0.ffn.h#1" gives "layers.0.ffn.h.again#1".
std::string name_again(const std::string& name) {
  const std::size_t suffix = std::min(name.find('#'), name.size());
  return name.substr(0, suffix) + ".again" + name.substr(suffix);
}

class RecomputePass {
 public:
  RecomputePass(const ir::Graph& before, const RecomputeOptions& options)
      : before_(before), after_(before.without_nodes()), options_(options) {
    for (const Node& node : before.nodes())
      if (node.phase == Phase::forward)
        for (ValueId input : node.inputs) mark_result(input, node);
  }

  ir::Graph run() {
    if (options_.whole_model)
      for (const RecomputeRule& rule : options_.rules) check(rule);
    for (Node node : before_.nodes()) {
      if (node.phase == Phase::backward)
        for (ValueId& input : node.inputs) input = again(input, node);
      after_.add_node(std::move(node));
    }
    return std::move(after_);
  }

 private:
  /// Marks the value as its module's result, if the reader is in another module.
  void mark_result(ValueId value, const Node& reader) {
    const ir::NodeId producer = before_.value(value).producer;
    if (producer.valid() && before_.node(producer).module != reader.module) results_.insert(value);
  }

  /// Whether the operation makes the Float8 of weights, once a step.
  static bool is_of_weights(Op op) {
    return op == Op::amax || op == Op::float8_scales || op == Op::quantize_unit;
  }

  static bool can_be_recomputed(const Node& node) {
    // Activations that the tensor or the context axis cuts can be gathered again.
    const bool gathers_rows =
        node.op == Op::all_gather && (node.lane == Lane::tensor || node.lane == Lane::context);
    return node.phase == Phase::forward && !ir::is_alias(node.op) &&
           (gathers_rows || !ir::communicates(node.op)) && node.op != Op::linear_cross_entropy &&
           node.op != Op::cross_entropy && !is_of_weights(node.op);
  }

  void check(const RecomputeRule& rule) const {
    const auto& nodes = before_.nodes();
    WEFT_VALIDATE(
        std::any_of(nodes.begin(), nodes.end(),
                    [&](const Node& node) { return can_be_recomputed(node) && matches(rule, node); }),
        "{}: '{}' names nothing of this model that can be computed again", options_.place, text_of(rule));
  }

  bool is_recomputed(const Node& node) const {
    if (!can_be_recomputed(node)) return false;
    if (options_.what == Recompute::full) {
      // The head is kept, because backward begins with it: it would compute again what it has just computed.
      bool kept = !node.module.starts_with("layers.");
      for (ValueId output : node.outputs) kept = kept || results_.contains(output);
      return !kept;
    }
    for (const RecomputeRule& rule : options_.rules)
      if (matches(rule, node)) return true;
    return false;
  }

  /// The value that `reader`, a backward node or a copy for one, reads for `value`: a second copy, made just
  /// before its first use.
  ValueId again(ValueId value, const Node& reader) {
    const ir::NodeId producer = before_.value(value).producer;
    // What one of a rank's stages gives to the next is kept: its backward, in which a copy would be made,
    // comes after that of the next.
    if (!producer.valid() || before_.node(producer).chunk != reader.chunk) return value;
    if (const auto known = copies_.find(value); known != copies_.end()) return known->second;
    if (!is_recomputed(before_.node(producer))) return value;
    Node copy = before_.node(producer);
    for (ValueId& input : copy.inputs) input = again(input, copy);
    copy.phase = Phase::backward;
    for (ValueId& output : copy.outputs) {
      ir::Value other = before_.value(output);
      other.name = name_again(other.name);
      const ValueId id = after_.add_value(std::move(other));
      copies_[output] = id;
      output = id;
    }
    after_.add_node(std::move(copy));
    return copies_.at(value);
  }

  const ir::Graph& before_;
  ir::Graph after_;
  const RecomputeOptions& options_;
  std::set<ValueId> results_;
  std::map<ValueId, ValueId> copies_;  ///< copies, by the forward's value that each one stands for
};

}  // namespace

std::string text_of(const RecomputeRule& rule) {
  return std::string(rule.op ? name_of(*rule.op) : "") + (rule.module.empty() ? "" : "@" + rule.module);
}

RecomputeRule recompute_rule(const std::string& text) {
  RecomputeRule rule;
  const std::size_t at = std::min(text.find('@'), text.size());
  if (at > 0) rule.op = ir::op_from(text.substr(0, at));
  if (at < text.size()) rule.module = text.substr(at + 1);
  return rule;
}

ir::Graph recompute(const ir::Graph& graph, const RecomputeOptions& options) {
  if (options.what == Recompute::budget) throw std::logic_error("the budget of recompute was not spent");
  return RecomputePass(graph, options).run();
}

}  // namespace weft::passes
