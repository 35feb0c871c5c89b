#include "ops/builder.hpp"

#include <fmt/core.h>

#include <utility>

#include "ops/shapes.hpp"

namespace weft::ops {

using ir::Value;
using ir::ValueId;

std::string Builder::suffix() const {
  return round_ == 0 ? "" : fmt::format("#{}", round_);
}

ir::NodeId Builder::append(ir::Op op, std::string_view module, std::vector<ValueId> inputs,
                           std::vector<ValueId> outputs, ir::Attributes attributes, Lane lane) {
  ir::Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.attributes = std::move(attributes);
  node.phase = phase_;
  node.lane = lane;
  node.round = round_;
  node.chunk = chunk_;
  node.module = module;
  return graph_.add_node(std::move(node));
}

std::vector<ValueId> Builder::emit(ir::Op op, std::string_view module, std::vector<ValueId> inputs,
                                   std::vector<std::string> names, ir::Attributes attributes) {
  const std::vector<ir::Type> types = infer(graph_, op, inputs, attributes);
  std::vector<ValueId> outputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    Value value;
    value.name = names[i] + suffix();
    value.type = types[i];
    outputs.push_back(graph_.add_value(std::move(value)));
  }
  append(op, module, std::move(inputs), outputs, std::move(attributes));
  return outputs;
}

ValueId Builder::emit_one(ir::Op op, std::string_view module, std::vector<ValueId> inputs, std::string name,
                          ir::Attributes attributes) {
  return emit(op, module, std::move(inputs), {std::move(name)}, std::move(attributes))[0];
}

ValueId Builder::zeros(std::string_view module, ir::Type type, std::string name) {
  Value value;
  value.name = std::move(name);
  value.type = type;
  const ValueId output = graph_.add_value(std::move(value));
  append(ir::Op::zeros, module, {}, {output}, {});
  return output;
}

ir::Attributes Builder::to_peer(int peer) const {
  return {{ir::Attr::axis, double(graph_.mesh().axis(pipe_axis))}, {ir::Attr::peer, double(peer)}};
}

void Builder::send(std::string_view module, ValueId x, int peer, Lane lane) {
  append(ir::Op::send, module, {x}, {}, to_peer(peer), lane);
}

ValueId Builder::recv(std::string_view module, ir::Type type, std::string name, int peer, Lane lane) {
  Value value;
  value.name = std::move(name) + suffix();
  value.type = type;
  const ValueId output = graph_.add_value(std::move(value));
  append(ir::Op::recv, module, {}, {output}, to_peer(peer), lane);
  return output;
}

ValueId Builder::over_axis(ir::Op op, Over over, std::string_view module, ValueId x, ir::Type type,
                           std::string name, ir::Attributes attributes) {
  Value value;
  value.name = std::move(name) + suffix();
  value.type = type;
  const ValueId output = graph_.add_value(std::move(value));
  attributes.set(ir::Attr::axis, over.axis);
  append(op, module, {x}, {output}, std::move(attributes), over.lane);
  return output;
}

ValueId Builder::sum_of_copies(ValueId x, std::string name) {
  Value value = graph_.value(x);
  value.name = std::move(name);
  const Unit& unit = graph_.unit(value.unit);
  const bool all = unit.copies == graph_.mesh().size(tensor_axis);
  ir::Attributes attributes{{ir::Attr::axis, double(graph_.mesh().axis(tensor_axis))}};
  if (!all) attributes.set(ir::Attr::copies, unit.copies);
  const ValueId output = graph_.add_value(std::move(value));
  append(ir::Op::all_reduce, unit.path, {x}, {output}, std::move(attributes),
         all ? Lane::tensor : Lane::copies);
  return output;
}

ValueId Builder::state(ir::StorageId id) {
  const ir::Storage& storage = graph_.storage(id);
  Value value;
  value.name = storage.name;
  value.type = storage.type;
  value.unit = storage.unit;
  value.placement = storage.placement;
  value.home = id;
  const ValueId output = graph_.add_value(std::move(value));
  append(ir::Op::state,
         storage.unit.valid() ? graph_.unit(storage.unit).path : std::string(name_of(storage.role)), {},
         {output}, {});
  return output;
}

ValueId Builder::view(ValueId whole, std::size_t index, std::string name) {
  const Value& unit_value = graph_.value(whole);
  const Parameter& parameter = graph_.unit(unit_value.unit).parameters[index];
  Value value;
  value.name = std::move(name);
  value.type = {unit_value.type.dtype, parameter.shape};
  value.placement = unit_value.placement;
  const ValueId output = graph_.add_value(std::move(value));
  append(ir::Op::view, parameter.path, {whole}, {output},
         {{ir::Attr::offset, static_cast<double>(parameter.offset)}});
  return output;
}

ValueId Builder::join(ir::UnitId unit, std::vector<ValueId> parts, std::string name) {
  Value value;
  value.name = std::move(name) + suffix();
  value.type = {graph_.value(parts[0]).type.dtype, {graph_.unit(unit).elements}};
  value.placement = graph_.value(parts[0]).placement;
  value.unit = unit;
  const ValueId output = graph_.add_value(std::move(value));
  append(ir::Op::join, graph_.unit(unit).path, std::move(parts), {output}, {});
  return output;
}

}  // namespace weft::ops
