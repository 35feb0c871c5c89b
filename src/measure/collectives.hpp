// Measures collectives alone on the machine, from small to large.
#pragma once

#include <string>
#include <vector>

#include "machine/profile.hpp"
#include "measure/exchanges.hpp"

namespace weft::measure {

struct CollectiveSweep {
  std::vector<machine::CollectiveCurve> curves;
  /// A line for each size or operation that did not fit into time or memory.
  std::vector<std::string> skipped;
};

/// Collective: measures all_gather, reduce_scatter with f32 and with bf16 on the wire, and all_reduce, at
/// powers of two from 1 KiB to exchanges.most(). Each size is repeated 3 to 41 times; a rank's time is the
/// median, and the slowest rank counts. A curve ends, above 1 MiB, where the next size would take more than a
/// quarter of `seconds` in all.
CollectiveSweep measure_collectives(Exchanges& exchanges, comm::World& world, int nodes, double seconds);
/// Collective: measures all_reduce over replicas in the same way, in `seconds`.
CollectiveSweep measure_replicas(ReplicaSums& sums, comm::World& world, int nodes, double seconds);

}  // namespace weft::measure
