// The trace of one step of a run (log.trace_step), with what follows that step.
#pragma once

#include <cstdint>
#include <string>

#include "comm/world.hpp"
#include "exec/trace.hpp"
#include "plan/plan.hpp"

namespace weft::train {

class RunTrace {
 public:
  /// All ranks' events go to the file `path`, which rank 0 writes.
  RunTrace(comm::World& world, std::string path) : world_(world), path_(std::move(path)) {}

  /// Collective: begins to trace `step`, whose plan this is.
  void start(const plan::Plan& plan, std::int64_t step);
  /// What the executor adds its instructions to; off unless a step is traced.
  exec::Trace& trace() { return trace_; }
  /// Traces, while it lives, what this thread does beside the plan's instructions.
  [[nodiscard]] exec::TraceScope scope(const char* name);
  /// Collective where a step is traced: writes the file, and ends the trace. A file that cannot be written is
  /// a warning.
  void write();

 private:
  comm::World& world_;
  std::string path_;
  exec::Trace trace_;
};

}  // namespace weft::train
