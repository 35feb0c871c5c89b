// The pass autodiff: appends the backward.
#include <map>
#include <vector>

#include "ops/builder.hpp"
#include "ops/derivatives.hpp"
#include "ops/storages.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;
using namespace ir::operand;

class Autodiff {
 public:
  explicit Autodiff(const ir::Graph& before)
      : before_(before), after_(before.without_nodes()), builder_(after_) {}

  ir::Graph run() {
    const int rounds = before_.rounds();
    accumulators_.resize(before_.units().size());
    std::vector<std::vector<Node>> forward(static_cast<std::size_t>(rounds));
    for (const Node& node : before_.nodes()) forward[static_cast<std::size_t>(node.round)].push_back(node);
    for (int round = 0; round < rounds; ++round) {
      const std::vector<Node>& nodes = forward[static_cast<std::size_t>(round)];
      for (const Node& node : nodes) after_.add_node(node);
      backward(nodes);
    }
    return std::move(after_);
  }

 private:
  void backward(const std::vector<Node>& forward) {
    gradients_.clear();
    unit_parts_.clear();
    for (auto node = forward.rbegin(); node != forward.rend(); ++node) {
      if (node->op == Op::view) {
        collect_parameter(*node);
      } else if (node->op != Op::state) {
        differentiate(*node);
      }
    }
  }

  void differentiate(const Node& node) {
    builder_.at(ir::Phase::backward, node.round, node.chunk);
    std::vector<ValueId> output_gradients;
    // A backward starts at the loss, and at the values whose gradients come from the next stage.
    bool any = node.op == Op::cross_entropy || node.op == Op::send;
    for (ValueId output : node.outputs) {
      output_gradients.push_back(gradient_of(output));
      any = any || output_gradients.back().valid();
    }
    if (!any) return;
    // A value with several uses gets the sum of their gradients, in the order of the reversed program.
    std::vector<ValueId> so_far;
    for (ValueId input : node.inputs) so_far.push_back(gradient_of(input));
    const std::vector<ValueId> sums = ops::differentiate(builder_, node, output_gradients, so_far);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (sums[i].valid()) gradients_[node.inputs[i]] = sums[i];
  }

  ValueId gradient_of(ValueId value) const {
    const auto it = gradients_.find(value);
    return it == gradients_.end() ? ValueId{} : it->second;
  }

  /// The gradients of a unit's views are written into one flat unit, which is added onto the unit's
  /// accumulator once they are all there.
  void collect_parameter(const Node& view) {
    builder_.at(ir::Phase::backward, view.round, view.chunk);
    const ir::UnitId unit_id = after_.value(view.in(single::from)).unit;
    const Unit& unit = after_.unit(unit_id);
    auto& parts = unit_parts_[unit_id];
    parts[view.attributes.integer(ir::Attr::offset)] = gradients_.at(view.out(single::to));
    std::vector<ValueId> in_order;
    std::int64_t elements = 0;
    for (const auto& [offset, part] : parts) {
      in_order.push_back(part);
      elements += element_count(after_.value(part).type.shape);
    }
    if (elements == unit.elements) accumulate(unit_id, builder_.join(unit_id, in_order, unit.path + ".grad"));
  }

  void accumulate(ir::UnitId unit_id, ValueId gradient) {
    const Unit& unit = after_.unit(unit_id);
    const std::string name = ops::storage_name(ir::Role::gradient, unit);
    ir::StorageId home = after_.find_storage(name);
    if (!home.valid())
      home = after_.add_storage({name, ir::Role::gradient, {DType::f32, {unit.elements}}, unit_id, {}});
    ValueId& sum = accumulators_[unit_id.index()];
    std::vector<ValueId> inputs{gradient};
    if (sum.valid()) inputs.push_back(sum);  // the sum that the gradient is added to
    sum = builder_.emit_one(Op::accumulate, unit.path, inputs, unit.path + ".sum");
    after_.value(sum).home = home;
    after_.value(sum).unit = unit_id;
  }

  const ir::Graph& before_;
  ir::Graph after_;
  ops::Builder builder_;
  std::map<ValueId, ValueId> gradients_;  ///< gradients in this round, by the forward's value
  /// Parts of a unit's gradient in this round, by their offset in the unit.
  std::map<ir::UnitId, std::map<std::int64_t, ValueId>> unit_parts_;
  std::vector<ValueId> accumulators_;  ///< by unit, the newest version of the sum over rounds
};

}  // namespace

ir::Graph autodiff(const ir::Graph& graph) {
  return Autodiff(graph).run();
}

}  // namespace weft::passes
