// The names of the storages that more than one folder looks up.
#pragma once

#include <string>

#include "ir/graph.hpp"

namespace weft::ops {

/// The storage of the loss totals, f64 [2]: sum of the losses and count of the valid targets, over all rounds
/// and ranks.
inline constexpr const char* totals_name = "report.totals";
/// The storage of the totals of one round of a validation; that of round 0 is totals_name.
std::string totals_name_of(int round);

/// The name of the storage of a unit's state: "master.layers.0.attn", and likewise with param, grad, exp_avg
/// and exp_avg_sq. Throws std::logic_error for a role that is not a unit's.
std::string storage_name(ir::Role role, const Unit& unit);

}  // namespace weft::ops
