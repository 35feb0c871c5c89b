// The compute lane: on the host the main thread, on CUDA a stream.
#pragma once

#include <memory>

#include "comm/event.hpp"
#include "kernels/space.hpp"

namespace weft::exec {

/// A run of a plan, captured. Ends before the lane.
class StepGraph {
 public:
  virtual ~StepGraph() = default;
  /// Enqueues it on the lane that captured it.
  virtual void launch() = 0;
};

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

  /// Whether what is enqueued can be captured: a stream's can.
  static bool capturable();
  /// What is enqueued between the two becomes a graph, and does not run: marks hold within the capture only.
  /// Throws std::logic_error where the lane is the host.
  void begin_capture();
  std::unique_ptr<StepGraph> end_capture();
  /// Instead of end_capture(), when something that should have been captured threw.
  void discard_capture() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::exec
