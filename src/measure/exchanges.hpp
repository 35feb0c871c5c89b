// Runs collectives of any size on the session's lanes, with memory of their own.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/memory.hpp"
#include "runtime/session.hpp"

namespace weft::measure {

/// How many elements a rank's part has where each of `ranks` ranks sends about `bytes` to the others: one at
/// least, which is more than `bytes` where there are many ranks.
std::int64_t elements_of_part(double bytes, int ranks, DType wire);

/// The bytes of the buffers of exchanges in which each rank sends up to so many bytes.
struct ExchangeBytes {
  std::int64_t part;   ///< a rank's part, of either type on the wire
  std::int64_t whole;  ///< the parts of all ranks
  std::int64_t sum;    ///< f32 sums of a part, even when bf16 is on the wire
};
ExchangeBytes exchange_bytes(double bytes, int ranks);

class Exchanges {
 public:
  /// Collective. Prepares for collectives in which a rank sends up to `bytes`, or up to what the host has
  /// memory for (most()). Gathers and reductions may be under way at once. There must be at least two ranks.
  Exchanges(runtime::Session& session, double bytes, ReduceOrder order);

  double most() const { return most_; }
  /// Makes room for collectives of up to `bytes`, at most most(); none is under way. Memory is taken when it
  /// is needed, because on a slow link the largest sizes are never reached.
  void hold(double bytes);
  int ranks() const { return ranks_; }

  /// These functions each start one collective in which this rank sends about `bytes`: on the gather lane an
  /// f32 all_gather; on the reduce lane a reduce_scatter onto f32, and an f32 all_reduce.
  comm::Event gather(double bytes);
  comm::Event reduce(double bytes, DType wire);
  comm::Event all_reduce(double bytes);

  /// Seconds in which a lane had a collective under way since it was opened, on average over both.
  double busy_seconds() const;
  /// How many bytes a rank really sends when it is asked to send `bytes`: whole elements.
  double sent(ir::Op op, double bytes, DType wire) const;

 private:
  std::int64_t elements(double bytes, DType wire) const { return elements_of_part(bytes, ranks_, wire); }

  runtime::Session& session_;
  int ranks_;
  ReduceOrder order_;
  double most_;
  double held_ = 0;  ///< how many bytes there is room for
  kernels::Buffer shard_, gathered_, gradient_, sum_, scratch_;
};

/// Runs f32 sums over the replicas, of which there are at least two, as a step runs them: canonical ones are
/// a reduce_scatter and an all_gather.
class ReplicaSums {
 public:
  /// Collective: prepares for sums as Exchanges does for its collectives.
  ReplicaSums(runtime::Session& session, double bytes, ReduceOrder order);

  double most() const { return most_; }
  void hold(double bytes);
  int ranks() const { return ranks_; }
  /// Starts a sum in which this rank sends about `bytes`; `sent` tells how many it really sends.
  comm::Event start(double bytes);
  double sent(double bytes) const;
  /// Seconds in which a sum was under way, since the lane was opened.
  double busy_seconds() const;

 private:
  std::int64_t elements(double bytes) const;

  runtime::Session& session_;
  int ranks_;
  double most_;
  double held_ = 0;
  ReduceOrder order_;
  kernels::Buffer sum_, scratch_;
};

}  // namespace weft::measure
