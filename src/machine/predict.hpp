// Sums over a graph: what its nodes take when nothing overlaps and nothing waits.
#pragma once

#include <cstdint>
#include <string>

#include "machine/cost_model.hpp"

namespace weft::machine {

/// One rank and one step.
struct Prediction {
  double compute_s = 0;  ///< of all kernels, one after another
  double gather_s = 0;   ///< of the collectives of each lane, alone on the wire
  double reduce_s = 0;
  double replica_s = 0;
  std::int64_t kernels = 0;
  std::int64_t measured = 0;  ///< kernels whose signature is in the profile
};
Prediction predict(const ir::Graph& graph, const CostModel& model);

/// The block that `weft plan` adds to its report. `source` says where the profile came from.
std::string prediction_text(const Prediction& prediction, const CostModel& model, const std::string& source);

}  // namespace weft::machine
