// Adds up what the nodes of a graph take when nothing overlaps and nothing waits.
#pragma once

#include <cstdint>
#include <string>

#include "base/per_lane.hpp"
#include "machine/cost_model.hpp"

namespace weft::machine {

/// The sums for one rank and one step.
struct Prediction {
  double compute_s = 0;       ///< all kernels, one after another
  PerLane<double> lanes_s{};  ///< what each lane communicates, alone on the wire; 0 for the compute lane
  std::int64_t kernels = 0;
  std::int64_t measured = 0;  ///< kernels whose signature is in the profile
};
Prediction predict(const ir::Graph& graph, const CostModel& model);

/// The lines that `weft plan` adds to its report. `source` says where the profile came from.
std::string prediction_text(const Prediction& prediction, const CostModel& model, const std::string& source);

}  // namespace weft::machine
