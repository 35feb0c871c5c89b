// Records the trace of one step of a run (log.trace_step), with what follows that step.
#pragma once

#include <cstdint>
#include <string>

#include "comm/world.hpp"
#include "exec/trace.hpp"
#include "plan/plan.hpp"

namespace weft::train {

class RunTrace {
 public:
  /// The events of all ranks go to the file `path`, which rank 0 writes.
  RunTrace(comm::World& world, std::string path) : world_(world), path_(std::move(path)) {}

  /// Collective: begins to trace `step`, which runs `plan`.
  void start(const plan::Plan& plan, std::int64_t step);
  /// The trace that the executor adds its instructions to; it is off unless a step is traced.
  exec::Trace& trace() { return trace_; }
  /// Traces what this thread does beside the plan's instructions, as long as the result lives.
  [[nodiscard]] exec::TraceScope scope(const char* name);
  /// Writes the file and ends the trace; does nothing when no step is traced. Collective where one is. A file
  /// that cannot be written only leads to a warning.
  void write();

 private:
  comm::World& world_;
  std::string path_;
  exec::Trace trace_;
};

}  // namespace weft::train
