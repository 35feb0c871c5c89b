#include <utility>
#include <vector>

#include "ops/shapes.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::Role;
using ir::ValueId;

class Precision {
 public:
  Precision(const ir::Graph& before, const PrecisionOptions& options)
      : before_(before),
        after_(before.without_nodes()),
        options_(options),
        parameters_(before.units().size()) {}

  ir::Graph run() {
    for (Node node : before_.nodes()) {
      if (node.op == Op::view) node.inputs[0] = parameter(node.inputs[0]);
      if (node.op == Op::adamw && lowered()) add_parameter_output(node);
      retype(node);
      after_.add_node(std::move(node));
    }
    return std::move(after_);
  }

 private:
  bool lowered() const { return options_.params != DType::f32; }

  /// The value that forward and backward read a unit's parameters from.
  ValueId parameter(ValueId master) {
    if (!lowered()) return master;
    const ir::UnitId unit = after_.value(master).unit;
    ValueId& value = parameters_[unit.index()];
    if (value.valid()) return value;
    value = add_parameter_value(unit, "param." + after_.unit(unit).path);
    Node state;
    state.op = Op::state;
    state.outputs = {value};
    state.module = after_.unit(unit).path;
    after_.add_node(std::move(state));
    return value;
  }

  ValueId add_parameter_value(ir::UnitId unit, std::string name) {
    const std::string storage_name = "param." + after_.unit(unit).path;
    const ir::Type type{options_.params, {after_.unit(unit).elements}};
    ir::StorageId home = after_.find_storage(storage_name);
    if (!home.valid()) home = after_.add_storage({storage_name, Role::parameter, type, unit, {}});
    ir::Value value;
    value.name = std::move(name);
    value.type = type;
    value.unit = unit;
    value.home = home;
    return after_.add_value(std::move(value));
  }

  void add_parameter_output(Node& adamw) {
    const ir::UnitId unit = after_.value(adamw.outputs[0]).unit;
    adamw.outputs.push_back(add_parameter_value(unit, "param." + after_.unit(unit).path + ".new"));
  }

  void retype(const Node& node) {
    if (node.op == Op::view || (node.op == Op::join && after_.value(node.outputs[0]).unit.valid())) {
      set(node.outputs[0], after_.value(node.inputs[0]).type.dtype);
    } else if (ops::has_shape_rule(node.op)) {
      const std::vector<ir::Type> types = ops::infer(after_, node.op, node.inputs, node.attributes);
      for (std::size_t i = 0; i < types.size(); ++i)
        set(node.outputs[i], ops::is_parameter_gradient(node.op, i) ? options_.grad_wire : types[i].dtype);
    }
  }

  void set(ValueId id, DType dtype) {
    ir::Value& value = after_.value(id);
    value.type.dtype = dtype;
    if (value.home.valid()) after_.storage(value.home).type.dtype = dtype;
  }

  const ir::Graph& before_;
  ir::Graph after_;
  PrecisionOptions options_;
  std::vector<ValueId> parameters_;  ///< by unit
};

}  // namespace

ir::Graph precision(const ir::Graph& graph, const PrecisionOptions& options) {
  return Precision(graph, options).run();
}

}  // namespace weft::passes
