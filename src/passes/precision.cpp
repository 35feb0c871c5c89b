// The pass precision: gives values narrower element types.
#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ops/builder.hpp"
#include "ops/shapes.hpp"
#include "ops/storages.hpp"
#include "passes/passes.hpp"
#include "passes/regrouped.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::Role;
using ir::ValueId;
using namespace ir::operand;

class Precision {
 public:
  Precision(const ir::Graph& before, const PrecisionOptions& options)
      : before_(before),
        after_(before.without_nodes()),
        options_(options),
        parameters_(before.units().size()) {}

  ir::Graph run() {
    for (Node node : before_.nodes()) {
      if (node.op == Op::view) node.in(single::from) = parameter(node.in(single::from));
      if (node.op == Op::adamw && has_parameter_copy(after_.value(node.out(adamw::new_master)).unit))
        add_parameter_output(node);
      retype(node);
      after_.add_node(std::move(node));
    }
    return std::move(after_);
  }

 private:
  /// Whether forward and backward read another copy of a unit's parameters than the masters. The pass float8
  /// makes that of its units.
  bool has_parameter_copy(ir::UnitId id) const {
    const Unit& unit = after_.unit(id);
    if (unit.f32_norms && !std::all_of(unit.parameters.begin(), unit.parameters.end(), is_norm))
      throw std::logic_error("norms in fp32 share the unit " + unit.path + " with others");
    return options_.params != DType::f32 && !unit.float8 && !unit.f32_norms;
  }

  /// The value that forward and backward read a unit's parameters from.
  ValueId parameter(ValueId master) {
    const ir::UnitId unit = after_.value(master).unit;
    if (!has_parameter_copy(unit)) return master;
    ValueId& value = parameters_[unit.index()];
    if (value.valid()) return value;
    const ir::Type type{options_.params, {after_.unit(unit).elements}};
    value = ops::Builder(after_).state(after_.add_storage(
        {ops::storage_name(Role::parameter, after_.unit(unit)), Role::parameter, type, unit, {}}));
    return value;
  }

  void add_parameter_output(Node& node) {
    ir::Value next = after_.value(parameters_[after_.value(node.out(adamw::new_master)).unit.index()]);
    next.name += ".new";
    node.outputs.push_back(after_.add_value(std::move(next)));
  }

  void retype(const Node& node) {
    if (node.op == Op::view || (node.op == Op::join && after_.value(node.out(single::to)).unit.valid())) {
      set(node.out(single::to), after_.value(node.inputs.front()).type.dtype);
    } else if (node.op == Op::recv && node.phase != ir::Phase::update) {
      // What goes from stage to stage has the parameters' element type; twins' sums of gradients are fp32.
      set(node.out(recv::x), options_.params);
    } else if (ir::is_collective(node.op)) {
      set(node.out(single::to), after_.value(node.in(single::from)).type.dtype);
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
  std::vector<ValueId> parameters_;  ///< the parameter that stands for each unit's master
};

}  // namespace

ir::Graph precision(const ir::Graph& graph, const PrecisionOptions& options) {
  return Precision(graph, options).run();
}

}  // namespace weft::passes
