// Makes the metrics of a step, as its slowest rank saw it.
#pragma once

#include "exec/executor.hpp"
#include "report/metrics.hpp"
#include "report/rank_times.hpp"
#include "runtime/session.hpp"

namespace weft::report {

/// What ranks tell each other at the end of a step, beside its times. It goes in with this rank's values, and
/// comes back with the largest of all ranks.
struct StepNews {
  double stop_request = 0;  ///< from job::StopRequest::seen()
  double data_check = 0;    ///< a DataCheck::State
  double data_left = 0;     ///< bytes, from DataCheck::bytes_left()
};

/// Collective: makes a line with the step's seconds, bytes sent and memory, each the maximum over ranks.
/// `step_seconds` are those of the plan with the copying of inputs, and `compute_only_s` those of the plan
/// without collectives.
StepMetrics slowest_rank(runtime::Session& session, const exec::Times& times, double step_seconds,
                         double compute_only_s, const MemoryBytes& memory, StepNews& news);

}  // namespace weft::report
