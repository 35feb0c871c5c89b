// Where the nodes of a plan stand in the program that one rank would run alone. A stage of a pipe has a part
// of that program, and runs it in the order of its pipeline schedule.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "base/stage_places.hpp"
#include "ir/graph.hpp"

namespace weft::exec {

/// A place in the program of one rank. Places compare as they follow one another there, over all stages.
struct ProgramPlace {
  int section = 0;  ///< forward and backward of each round in turn, from 1; the update is behind all
  int stage = 0;    ///< a number that rises in the direction in which the section goes through the stages
  std::int64_t index = 0;  ///< the node's place in its own plan
  auto operator<=>(const ProgramPlace&) const = default;
};

class ProgramOrder {
 public:
  /// The order of one rank's graph, which this object does not need any longer. `pipe_rank` is the rank's
  /// place on the pipe.
  ProgramOrder(const ir::Graph& graph, const StagePlaces& pipe, int pipe_rank);

  const ProgramPlace& place(ir::NodeId node) const { return places_[node.index()]; }
  /// The stage of the pipe that the node belongs to. What is made for a unit belongs to the unit's stage.
  int stage(ir::NodeId node) const { return stages_[node.index()]; }

 private:
  std::vector<int> stages_;           ///< by node
  std::vector<ProgramPlace> places_;  ///< by node
};

}  // namespace weft::exec
