// The compute lane: the main thread on the host, and a stream on CUDA.
#pragma once

#include <memory>

#include "comm/event.hpp"
#include "kernels/space.hpp"

namespace weft::exec {

/// A captured run of a plan. It must end before the lane does.
class StepGraph {
 public:
  virtual ~StepGraph() = default;
  /// Enqueues the run on the lane that captured it.
  virtual void launch() = 0;
};

class ComputeLane {
 public:
  explicit ComputeLane(kernels::Space& space);
  ~ComputeLane();
  ComputeLane(const ComputeLane&) = delete;
  ComputeLane& operator=(const ComputeLane&) = delete;

  /// Lets what is enqueued from here on run after `event`. Blocks the host only where the lane is the host.
  void wait(const comm::Event& event);
  /// The event of all that has been enqueued so far.
  comm::Event mark();
  /// Blocks the host until all that has been enqueued is done.
  void finish();

  /// Whether what is enqueued can be captured. That of a stream can.
  static bool capturable();
  /// Begins a capture: what is enqueued until end_capture() becomes a graph, and does not run. Marks hold
  /// within the capture only. Throws std::logic_error where the lane is the host.
  void begin_capture();
  std::unique_ptr<StepGraph> end_capture();
  /// Ends the capture without a graph, when something that should have been captured threw.
  void discard_capture() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::exec
