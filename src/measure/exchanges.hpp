// Collectives of any size on the session's lanes, with memory of their own.
#pragma once

#include "kernels/memory.hpp"
#include "train/session.hpp"

namespace weft::measure {

/// Collective: the largest power of two up to `bytes` for which half of the host's memory is enough on every
/// rank, when it holds `held_a_byte` for each.
double what_fits(train::Session& session, double bytes, double held_a_byte);
/// Replaces the buffer by one of at least so many bytes.
void make_room(kernels::Buffer& buffer, double bytes, const char* label);

class Exchanges {
 public:
  /// Collective. For collectives in which a rank sends up to `bytes`, or up to what the host has memory for
  /// (most()): gathers and reductions may be under way at once. At least two ranks.
  Exchanges(train::Session& session, double bytes, comm::ReduceOrder order);

  double most() const { return most_; }
  /// Makes room for collectives of up to `bytes`, at most most(); none is under way. Memory is taken when it
  /// is needed, because on a slow link the largest sizes are never reached.
  void hold(double bytes);
  int ranks() const { return ranks_; }

  /// Each starts one collective in which this rank sends about `bytes`. On the gather lane, an f32
  /// all_gather; on the reduce lane, a reduce_scatter onto f32, and an f32 all_reduce.
  comm::Event gather(double bytes);
  comm::Event reduce(double bytes, DType wire);
  comm::Event all_reduce(double bytes);

  /// Bytes that a rank really sends when it is asked to send `bytes`: whole elements.
  double sent(ir::Op op, double bytes, DType wire) const;

 private:
  std::int64_t elements(double bytes, DType wire) const;
  std::int64_t all_reduce_elements(double bytes) const;

  train::Session& session_;
  int ranks_;
  comm::ReduceOrder order_;
  double most_;
  double held_ = 0;  ///< bytes that there is room for
  kernels::Buffer shard_, gathered_, gradient_, sum_, scratch_;
};

}  // namespace weft::measure
