// A training step reduced to what a schedule moves: compute between the places where collectives begin or are
// needed, and the collectives with their bytes.
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
  std::int64_t bytes = 0;  ///< of the gathered unit on a rank
};

/// The reduction of one unit's gradient.
struct Reduce {
  ir::UnitId unit;
  int round = 0;
  std::size_t ready = 0;  ///< the slot after which it can begin
  double wire_bytes = 0;
  std::int64_t bytes = 0;  ///< of the gradient and the scratch
};

/// The sum of one unit's gradient over the replicas, after the last round.
struct ReplicaSum {
  ir::UnitId unit;
  std::size_t ready = 0;  ///< the slot after which the unit's last gradient can be reduced
  double wire_bytes = 0;
  std::int64_t bytes = 0;  ///< of the scratch
};

/// Any other collective: of the norm, the losses, the update. It stays where it is.
struct Fixed {
  Lane lane = Lane::reduce;
  double seconds = 0, wire_bytes = 0;
  std::size_t ready = 0;  ///< the slot after which it begins
  std::size_t use = 0;    ///< the slot that needs it; the number of slots: none
};

struct Problem {
  std::vector<double> slots;  ///< seconds of compute
  /// Bytes live in a slot, at most, with nothing prefetched and nothing held.
  std::vector<std::int64_t> live;
  std::vector<std::size_t> last_node;  ///< of a slot, in the graph
  std::vector<Gather> gathers;         ///< in program order
  std::vector<Reduce> reduces;         ///< in program order
  std::vector<ReplicaSum> sums;        ///< in program order
  std::size_t sums_use = 0;            ///< the slot that needs them
  std::vector<Fixed> fixed;            ///< in program order, behind those
  std::size_t units = 0;
  machine::Peers ranks = 1;     ///< of the axis that state is cut over
  machine::Peers replicas = 1;  ///< of the axis that repeats it
  DType gather_type = DType::f32, reduce_type = DType::f32;
};

/// From a graph with one collective a unit, none of them moved.
Problem make_problem(const ir::Graph& graph, const plan::ScratchQuery& scratch,
                     const machine::CostModel& costs);

}  // namespace weft::search
