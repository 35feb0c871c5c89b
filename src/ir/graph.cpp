#include "ir/graph.hpp"

#include <utility>

#include "base/check.hpp"

namespace weft::ir {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::update: return "update";
  }
  return "?";
}

std::string_view name_of(Role role) {
  switch (role) {
    case Role::parameter: return "parameter";
    case Role::master: return "master";
    case Role::exp_avg: return "exp_avg";
    case Role::exp_avg_sq: return "exp_avg_sq";
    case Role::gradient: return "gradient";
    case Role::input: return "input";
    case Role::constant: return "constant";
    case Role::report: return "report";
  }
  return "?";
}

Graph::Graph(std::string name, Mesh mesh, std::vector<Unit> units)
    : name_(std::move(name)), mesh_(std::move(mesh)), units_(std::move(units)) {}

StorageId Graph::find_storage(std::string_view name) const {
  const auto index = storage_names_.find(storages_, name);
  return index ? StorageId(*index) : StorageId{};
}

ValueId Graph::find_value(std::string_view name) const {
  const auto index = value_names_.find(values_, name);
  return index ? ValueId(*index) : ValueId{};
}

StorageId Graph::add_storage(Storage storage) {
  WEFT_VALIDATE(!find_storage(storage.name).valid(), "the graph has two storages named '{}'", storage.name);
  const StorageId id(storages_.size());
  storages_.push_back(std::move(storage));
  storage_names_.add_last(storages_);
  return id;
}

ValueId Graph::add_value(Value value) {
  if (const ValueId taken = find_value(value.name); taken.valid()) {
    int& n = copies_.emplace(taken, 2).first->second;
    std::string free = fmt::format("{}~{}", value.name, n);
    while (find_value(free).valid()) free = fmt::format("{}~{}", value.name, ++n);
    value.name = std::move(free);
  }
  const ValueId id(values_.size());
  value.producer = NodeId{};
  values_.push_back(std::move(value));
  value_names_.add_last(values_);
  return id;
}

NodeId Graph::add_node(Node node) {
  const NodeId id(nodes_.size());
  for (ValueId output : node.outputs) {
    WEFT_EXPECT(!value(output).producer.valid(), "'{}' has two producers", value(output).name);
    value(output).producer = id;
  }
  nodes_.push_back(std::move(node));
  return id;
}

Graph Graph::without_nodes() const {
  Graph copy(name_, mesh_, units_);
  copy.values_ = values_;
  for (Value& value : copy.values_) value.producer = NodeId{};
  copy.storages_ = storages_;
  copy.value_names_ = value_names_;
  copy.storage_names_ = storage_names_;
  copy.copies_ = copies_;
  return copy;
}

std::int64_t Graph::local_elements(const Type& type, const Placements& placement, UnitId unit_id) const {
  int cuts = 1;
  for (std::size_t axis = 0; axis < placement.size(); ++axis)
    if (placement[axis].kind == Placement::Kind::shard) cuts *= mesh_.size(static_cast<int>(axis));
  if (!unit_id.valid()) return element_count(type.shape) / cuts;
  const Unit& u = unit(unit_id);
  return u.padded_elements(mesh_.unit_ranks(u.copies)) / cuts;
}

std::int64_t Graph::local_elements(ValueId id) const {
  const Value& v = value(id);
  return local_elements(v.type, v.placement, v.unit);
}

std::int64_t Graph::local_elements(const Storage& s) const {
  return local_elements(s.type, s.placement, s.unit);
}

int Graph::rounds() const {
  int rounds = 0;
  for (const Node& node : nodes_) rounds = std::max(rounds, node.round + 1);
  return rounds;
}

ValueId Graph::alias_root(ValueId id) const {
  for (NodeId producer = value(id).producer; producer.valid(); producer = value(id).producer) {
    const Op op = node(producer).op;
    if (op != Op::view && op != Op::rank_slice) break;
    id = node(producer).in(operand::single::from);
  }
  return id;
}

Shape Graph::local_shape(ValueId id) const {
  const Value& v = value(id);
  Shape shape = v.type.shape;
  for (std::size_t axis = 0; axis < v.placement.size(); ++axis)
    if (v.placement[axis].kind == Placement::Kind::shard)
      shape[static_cast<std::size_t>(v.placement[axis].dim)] /= mesh_.size(static_cast<int>(axis));
  return shape;
}

}  // namespace weft::ir
