// Makes what a picture draws of a simulated plan: rectangles of its lanes and a curve of its memory, thinned
// to what can be seen.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "machine/lanes.hpp"
#include "plan/plan.hpp"

namespace weft::plan {

/// Instructions that follow each other on a lane, drawn as one rectangle.
struct Block {
  double start = 0, end = 0;  ///< seconds
  ir::Phase phase = ir::Phase::forward;
  int round = 0;
  std::string_view first, last;  ///< module paths
  std::string_view op;           ///< operation of the first instruction
  std::int64_t instructions = 0;
  std::int64_t bytes = 0;  ///< bytes that a rank sends
  double longest = 0;      ///< seconds of the longest part, whose phase the block has
};
/// Makes blocks of a lane. Neighbours of one module, phase and round are one block; so are any that together
/// take less than `shortest` seconds. There are at most 2 * end / shortest blocks.
std::vector<Block> blocks_of(const Plan& plan, const machine::LaneTimes& times, Lane lane, double shortest);

/// A stretch of time in which the compute lane waits, or in which the step waits for its end.
struct Stretch {
  double start = 0, end = 0;
  double waited = 0;         ///< seconds of it that are spent waiting
  Lane lane = Lane::gather;  ///< the lane that is waited for at its end
};
/// Finds the stretches. Waits that together take less than `shortest` seconds are joined if they fill half of
/// that time, and are left out if not.
std::vector<Stretch> waiting_of(const Plan& plan, const machine::LaneTimes& times, double shortest);

/// The most live bytes of the arena in each of `columns` equal parts of the step.
std::vector<std::int64_t> live_bytes_over_time(const Plan& plan, const machine::LaneTimes& times,
                                               std::size_t columns);
/// When the compute lane comes to each place (the indices of graph.nodes(), and one more for the end): the
/// start of the first kernel at or after it.
std::vector<double> times_of_places(const Plan& plan, const machine::LaneTimes& times);

}  // namespace weft::plan
