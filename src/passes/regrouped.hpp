// Internal: reads parameters in a graph whose units are others than those of the graph before.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.hpp"

namespace weft::ops {
class Builder;
}

namespace weft::passes {

/// Puts a parameter behind those that the unit has.
void append(Unit& unit, Parameter p);
/// The unit without its parameters, and without what only its norms had.
Unit without_parameters(const Unit& unit);
/// Whether the parameter is the weight of a norm.
bool is_norm(const Parameter& p);
/// Puts the unit "whole", of what all layers read, before the others, because of those the last ones may stay
/// gathered; but not when it is empty.
void put_whole_first(Unit whole, std::vector<Unit>& units);

/// Finds each parameter in its new unit, by its path.
class Regrouped {
 public:
  /// `b` appends to `after`, whose units are the new ones.
  Regrouped(const ir::Graph& before, ir::Graph& after, ops::Builder& b);

  /// The value that stands for a view in the graph before. The first one of a unit also declares its storage.
  ir::ValueId view(const ir::Node& view);

 private:
  /// The storage of a unit, of the kind that `like` is.
  ir::StorageId storage_of(ir::UnitId id, ir::StorageId like);

  const ir::Graph& before_;
  ir::Graph& after_;
  ops::Builder& b_;
  std::map<std::string, std::pair<ir::UnitId, std::size_t>> place_of_;  ///< a parameter's unit and index
  std::vector<ir::ValueId> states_;                                     ///< by unit, once something reads it
};

}  // namespace weft::passes
