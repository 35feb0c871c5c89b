// The compute lane: on the host the main thread, on CUDA a stream.
#pragma once

#include <memory>

#include "comm/event.hpp"
#include "kernels/space.hpp"

namespace weft::exec {

class ComputeLane {
 public:
  explicit ComputeLane(kernels::Space& space);
  ~ComputeLane();
  ComputeLane(const ComputeLane&) = delete;
  ComputeLane& operator=(const ComputeLane&) = delete;

  /// What is enqueued from here on runs after `event`. Blocks the host only where the lane is the host.
  void wait(const comm::Event& event);
  /// The event of all that was enqueued so far.
  comm::Event mark();
  /// Blocks the host until all that was enqueued is done.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::exec
