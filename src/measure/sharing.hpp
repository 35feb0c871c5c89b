// Measures what lanes take from each other: two collectives at once, and collectives beside kernels.
#pragma once

#include <functional>

#include "machine/profile.hpp"
#include "measure/exchanges.hpp"

namespace weft::measure {

/// Collective. `bytes` is the largest size at which a gather and a reduce_scatter were measured. `compute`
/// runs the same kernels each time, without collectives, for tenths of a second or more. It takes up to about
/// `seconds`, if the link lets it.
machine::Sharing measure_sharing(Exchanges& exchanges, comm::World& world, double bytes,
                                 const std::function<void()>& compute, double seconds);
/// Collective: measures the same for sums over replicas, beside the gathers of `exchanges` (null: state is
/// not cut) and beside `compute`. Room for sums.most() and exchanges->most() must be held.
machine::ReplicaSharing measure_replica_sharing(ReplicaSums& sums, Exchanges* exchanges, comm::World& world,
                                                const std::function<void()>& compute, double seconds);

}  // namespace weft::measure
