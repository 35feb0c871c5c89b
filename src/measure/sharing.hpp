// Measures what lanes take from each other: two collectives at once, and collectives beside kernels.
#pragma once

#include <functional>

#include "machine/profile.hpp"
#include "measure/exchanges.hpp"

namespace weft::measure {

/// The most collectives that a lane has pending beside compute. A stream of a GPU holds about a thousand
/// launches, and more would let the host wait instead of launching the compute. A collective has at most ten:
/// its two marks, and two for each of four portions of a sum in rank order.
inline constexpr int most_rounds = 80;

/// A row of collectives on a lane.
struct Rounds {
  double bytes;  ///< how many a rank sends in each
  int count;     ///< how many there are, at most most_rounds
};
/// The row that each of `lanes` lanes runs beside compute of so many seconds. With nothing beside them they
/// send `rate` bytes a second together. The rows last until a compute that takes twice as long has ended,
/// unless that would be more than most_rounds collectives of `most` bytes, and what is left then runs out
/// behind it.
Rounds rounds_beside(double seconds, double rate, int lanes, double most);

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
