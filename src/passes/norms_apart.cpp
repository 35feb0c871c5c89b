// The pass norms_apart: gives the norms of units in Float8 a unit of their own.
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/builder.hpp"
#include "ops/storages.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Attr;
using ir::Node;
using ir::Op;
using ir::StorageId;
using ir::UnitId;
using ir::ValueId;
using namespace ir::operand;

bool is_norm(const Parameter& p) {
  return p.shape.size() == 1;
}

class NormsApart {
 public:
  explicit NormsApart(const ir::Graph& before)
      : before_(before),
        after_(before.name(), before.mesh(), with_norms_apart(before.units())),
        b_(after_),
        values_(before.values().size()),
        states_(after_.units().size()),
        storages_(before.storages().size()) {
    for (std::size_t u = 0; u < after_.units().size(); ++u)
      for (std::size_t p = 0; p < after_.units()[u].parameters.size(); ++p)
        place_of_.emplace(after_.units()[u].parameters[p].path, std::pair(UnitId(u), p));
  }

  ir::Graph run() {
    for (const Node& node : before_.nodes()) {
      b_.at(node.phase, node.round, node.chunk);
      if (node.op == Op::state && before_.value(node.out(single::to)).unit.valid()) continue;
      if (node.op == Op::view)
        view(node);
      else
        copy(node);
    }
    return std::move(after_);
  }

 private:
  void view(const Node& node) {
    const ir::Value& unit_value = before_.value(node.in(single::from));
    for (const Parameter& p : before_.unit(unit_value.unit).parameters) {
      if (p.offset != node.attributes.integer(Attr::offset)) continue;
      const auto [own_unit, index] = place_of_.at(p.path);
      ValueId& whole = states_[own_unit.index()];
      if (!whole.valid()) whole = b_.state(storage_of(own_unit, unit_value.home));
      values_[node.out(single::to).index()] = b_.view(whole, index, before_.value(node.out(single::to)).name);
      return;
    }
    throw std::logic_error("a view before norms_apart is not of a whole parameter");
  }

  /// The storage of a unit, of the kind that `like` is.
  StorageId storage_of(UnitId id, StorageId like) {
    ir::Storage storage = before_.storage(like);
    const Unit& unit = after_.unit(id);
    storage.name = ops::storage_name(storage.role, unit);
    storage.type.shape = {unit.elements};
    storage.unit = id;
    return after_.add_storage(std::move(storage));
  }

  void copy(Node node) {
    for (ValueId& input : node.inputs) input = values_[input.index()];
    for (ValueId& output : node.outputs) {
      ir::Value value = before_.value(output);
      if (value.home.valid()) {
        StorageId& own = storages_[value.home.index()];
        if (!own.valid()) own = after_.add_storage(before_.storage(value.home));
        value.home = own;
      }
      const ValueId before = std::exchange(output, after_.add_value(std::move(value)));
      values_[before.index()] = output;
    }
    after_.add_node(std::move(node));
  }

  const ir::Graph& before_;
  ir::Graph after_;
  ops::Builder b_;
  std::vector<ValueId> values_;      ///< by value of the graph before
  std::vector<ValueId> states_;      ///< by unit, once something reads it
  std::vector<StorageId> storages_;  ///< of inputs, constants and reports, by those of the graph before
  std::map<std::string, std::pair<UnitId, std::size_t>>
      place_of_;  ///< a parameter's unit, and its index there
};

}  // namespace

std::vector<Unit> with_norms_apart(const std::vector<Unit>& units) {
  std::vector<Unit> list;
  Unit whole;
  whole.path = "whole";
  whole.lasting = true;
  const auto add = [](Unit& unit, Parameter p) {
    p.offset = unit.elements;
    unit.elements += element_count(p.shape);
    unit.parameters.push_back(std::move(p));
  };
  for (const Unit& unit : units) {
    Unit own = unit;
    own.parameters.clear();
    own.elements = 0;
    for (const Parameter& p : unit.parameters) add(unit.float8 && is_norm(p) ? whole : own, p);
    list.push_back(std::move(own));
  }
  // It comes first, because of the others the last ones may stay gathered.
  if (!whole.parameters.empty()) list.insert(list.begin(), std::move(whole));
  return list;
}

ir::Graph norms_apart(const ir::Graph& graph) {
  return NormsApart(graph).run();
}

}  // namespace weft::passes
