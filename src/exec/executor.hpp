// The executor runs a plan: it launches kernels on the compute lane and hands collectives to their channels,
// with the plan's waits as events between them. In a step nothing is decided, allocated or hashed, except in
// the one that is captured on CUDA (exec/capture.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/per_lane.hpp"
#include "exec/bind.hpp"
#include "exec/storage.hpp"
#include "exec/tap.hpp"
#include "exec/trace.hpp"
#include "plan/plan.hpp"

namespace weft::exec {

enum class Run : std::uint8_t {
  full,
  /// Collectives are left out: the results are wrong, and the time is that of the compute alone. The step
  /// block must say hold. Otherwise AdamW would write nonsense while neighbours read it.
  compute_only
};

/// What one run of a plan took on this rank, by lane: seconds, and bytes sent. Numbers that concern
/// collectives are 0 for the compute lane.
struct Times {
  double step = 0;
  /// How long the compute lane, or the step's end, waited for the lane's collectives. This is for host lanes.
  /// On CUDA the host does not see what a stream waits for: only the wait at the end counts there, and
  /// nothing in a replay.
  PerLane<double> exposed{};
  PerLane<double> under_way{};    ///< how long a collective of the lane was under way
  PerLane<std::uint64_t> sent{};  ///< payload that went to other ranks
};

class Executor {
 public:
  /// Binds every instruction. `memory` holds the plan's storages and arena already; `rank` is the coordinate
  /// on the axis that state is cut over.
  Executor(plan::Plan plan, const Device& device, Memory& memory, int rank);

  /// Runs the plan once and waits for its end. With a trace that is on, it records a span for each
  /// instruction; a tap sees the values that it wants. A run with neither is a replay where capture() says so
  /// and another run of the same mode was before it; the first replay takes the capture's time, too.
  /// `before_update` is called on the host's thread before anything is enqueued that may change the
  /// persistent state: between the backward pass and the updates, or before a replay. Throws
  /// Error(environment) when a kernel could not be launched, and names it where the plan was walked.
  Times run(Run mode, Trace* trace = nullptr, Tap* tap = nullptr,
            const std::function<void()>& before_update = {});
  /// Frees the graph of this mode, if there is one; no run is under way. A later run of the mode captures
  /// another one.
  void forget(Run mode);
  const plan::Plan& plan() const { return plan_; }
  Capture capture() const { return capture_; }

 private:
  struct Bound {
    const plan::Instruction* instruction;
    Kernel kernel;          ///< set on the compute lane
    Collective collective;  ///< set on the other lanes
    bool signals = false;   ///< another lane waits for it
    std::string label;      ///< what a collective is for, in records: "forward layers.3.attn"
  };
  /// A captured run of one mode.
  struct Replay {
    /// A run was walked before: libraries have set themselves up, which no capture may see.
    bool warm = false;
    /// The captured calls of the lanes that the plan uses.
    std::vector<std::unique_ptr<comm::CapturedCalls>> calls;
    std::unique_ptr<StepGraph> graph;
  };
  void bind();
  std::byte* address(const plan::Location& location) const;
  comm::Event& event_of(Lane lane, std::uint64_t sequence) { return events_[lane][sequence - 1]; }
  void walk(Run mode, Trace* trace, Tap* tap, const std::function<void()>& before_update = {});
  void capture_run(Run mode, Replay& replay);
  void run_kernel(const Bound& bound, Run mode, Trace* trace);
  void wait_for_the_lanes();
  void add_channel(const comm::Channel* channel, int sign);
  void start_collective(const Bound& bound);
  void show(const Bound& bound, Tap& tap);
  void record_collectives(Trace& trace);

  plan::Plan plan_;
  Device device_;
  Memory& memory_;
  int rank_;
  Locate locate_;
  std::vector<Bound> bound_;
  /// By lane and sequence - 1: the events of this run's collectives, and of kernels that another lane waits
  /// for.
  PerLane<std::vector<comm::Event>> events_;
  Times times_;  ///< the times of the run under way
  Capture capture_;
  std::array<Replay, 2> replays_;  ///< by Run
};

}  // namespace weft::exec
