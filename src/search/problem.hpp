// A training step reduced to what a schedule can move: stretches of compute between the places where
// collectives begin or are needed, and the collectives with their bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "machine/cost_model.hpp"
#include "plan/plan.hpp"

namespace weft::search {

/// A gather of one unit's parameters. Slots are stretches of compute, numbered from 0.
struct Gather {
  ir::UnitId unit;
  ir::Phase phase = ir::Phase::forward;
  int round = 0;
  std::size_t use = 0, last = 0;  ///< the first and the last slot that reads it
  double wire_bytes = 0;
  std::int64_t bytes = 0;  ///< bytes of the gathered unit on a rank
};

/// The reduction of one unit's gradient.
struct Reduce {
  ir::UnitId unit;
  int round = 0;
  std::size_t ready = 0;  ///< the slot after which it can begin
  double wire_bytes = 0;
  std::int64_t bytes = 0;  ///< bytes of the gradient and the scratch
};

/// The sum of one unit's gradient over the replicas, after the last round.
struct ReplicaSum {
  ir::UnitId unit;
  std::size_t ready = 0;  ///< the slot after which the unit's last gradient can be reduced
  double wire_bytes = 0;
  std::int64_t bytes = 0;  ///< bytes of the scratch
};

/// Any other collective: for the norm, the losses, or the update; or a message between stages. It stays where
/// it is.
struct Fixed {
  Lane lane = Lane::reduce;
  machine::Link link = machine::Link::near;
  double seconds = 0, wire_bytes = 0;
  std::size_t after = 0;  ///< how many slots are done before it begins
  std::size_t use = 0;    ///< the slot that needs it; the number of slots when none does
};

struct Problem {
  std::vector<double> slots;  ///< seconds of compute in each slot
  /// The most bytes that are live in each slot, with nothing prefetched and nothing held.
  std::vector<std::int64_t> live;
  std::vector<std::size_t> last_node;  ///< the last node of each slot, in the graph
  std::vector<Gather> gathers;         ///< in program order
  std::vector<Reduce> reduces;         ///< in program order
  std::vector<ReplicaSum> sums;        ///< in program order
  std::size_t sums_use = 0;            ///< the slot that needs the sums
  std::vector<Fixed> fixed;            ///< in program order, behind the collectives above
  std::size_t units = 0;
  bool turns = false;               ///< the rounds take turns two and two
  machine::RankGroup ranks = 1;     ///< ranks of the axis that state is cut over
  machine::RankGroup replicas = 1;  ///< ranks of the axis that repeats state
  DType gather_type = DType::f32, reduce_type = DType::f32;
};

/// Makes the problem from a graph in which each unit has its own collectives, and none has been moved.
Problem make_problem(const ir::Graph& graph, const plan::ScratchQuery& scratch,
                     const machine::CostModel& costs);

}  // namespace weft::search
