// Draws a plan: the predicted timeline of its lanes, and under it the memory of a rank.
#pragma once

#include <string>
#include <string_view>

#include "machine/lanes.hpp"
#include "plan/plan.hpp"

namespace weft::plan {

/// An SVG of 1200 x 700, some hundred kB at most for any plan. `times` are simulate()'s, `name` the deck's.
/// - The lanes have a row each, coloured by phase. Neighbours of one module and phase are one rectangle, and
///   what is too narrow to see joins its neighbour. Where the compute lane waits, it is red. Tooltips tell
///   module, time and bytes.
/// - The memory is the state, and on it the arena's live bytes, over the compute lane's time. The peak and
///   its five largest holders are named. A buffer counts from the first kernel at or after the place from
///   which it is held.
std::string picture(const Plan& plan, const machine::LaneTimes& times, std::string_view name);

}  // namespace weft::plan
