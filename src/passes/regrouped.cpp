#include "passes/regrouped.hpp"

#include <stdexcept>

#include "ops/builder.hpp"
#include "ops/storages.hpp"

namespace weft::passes {

using namespace ir::operand;

void append(Unit& unit, Parameter p) {
  p.offset = unit.elements;
  unit.elements += element_count(p.shape);
  unit.parameters.push_back(std::move(p));
}

Unit without_parameters(const Unit& unit) {
  Unit empty = unit;
  empty.parameters.clear();
  empty.elements = 0;
  empty.f32_norms = false;
  return empty;
}

bool is_norm(const Parameter& p) {
  return p.shape.size() == 1;
}

void put_whole_first(Unit whole, std::vector<Unit>& units) {
  if (whole.parameters.empty()) return;
  whole.path = "whole";
  whole.lasting = true;
  units.insert(units.begin(), std::move(whole));
}

Regrouped::Regrouped(const ir::Graph& before, ir::Graph& after, ops::Builder& b)
    : before_(before), after_(after), b_(b), states_(after.units().size()) {
  for (std::size_t u = 0; u < after.units().size(); ++u)
    for (std::size_t p = 0; p < after.units()[u].parameters.size(); ++p)
      place_of_.emplace(after.units()[u].parameters[p].path, std::pair(ir::UnitId(u), p));
}

ir::ValueId Regrouped::view(const ir::Node& view) {
  const ir::Value& unit_value = before_.value(view.in(single::from));
  for (const Parameter& p : before_.unit(unit_value.unit).parameters) {
    if (p.offset != view.attributes.integer(ir::Attr::offset)) continue;
    const auto [own_unit, index] = place_of_.at(p.path);
    ir::ValueId& whole = states_[own_unit.index()];
    if (!whole.valid()) whole = b_.state(storage_of(own_unit, unit_value.home));
    return b_.view(whole, index, before_.value(view.out(single::to)).name);
  }
  throw std::logic_error("a view is not of a whole parameter, and its units are made anew");
}

ir::StorageId Regrouped::storage_of(ir::UnitId id, ir::StorageId like) {
  ir::Storage storage = before_.storage(like);
  const Unit& unit = after_.unit(id);
  storage.name = ops::storage_name(storage.role, unit);
  storage.type.shape = {unit.elements};
  storage.unit = id;
  return after_.add_storage(std::move(storage));
}

}  // namespace weft::passes
