// A copy of this rank's part of the state in host memory of its own, made on a thread of its own while the
// next step computes: the state changes at that step's end only.
#pragma once

#include <future>
#include <vector>

#include "ckpt/state.hpp"
#include "kernels/memory.hpp"
#include "runtime/model_state.hpp"

namespace weft::runtime {

class StateCopy {
 public:
  /// Takes state.own_bytes() of host memory. `state` outlives this object.
  explicit StateCopy(const ModelState& state);

  /// Begins to copy the state as it is; it must not change until wait() returns.
  void start();
  /// Returns once the copy that start() began is done, well or not, and at once when there is none. It may be
  /// called on any thread, but not while another one calls start().
  void wait() const;
  /// Waits like wait(), and throws what the copying threw: slices() are not the state then.
  void check() const;
  /// Seconds that the last copy took.
  double seconds() const { return seconds_; }
  /// The copy, in the form that ckpt::Save takes.
  const std::vector<ckpt::StateSlice>& slices() const { return slices_; }

 private:
  void copy();

  const ModelState& state_;
  kernels::HostBuffer buffer_;
  kernels::Space space_;
  std::vector<ckpt::StateSlice> slices_;
  double seconds_ = 0;
  std::shared_future<void> under_way_;
};

}  // namespace weft::runtime
