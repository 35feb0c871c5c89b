// The seconds of a training step that metrics have for each lane, with a number for each.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "report/metrics.hpp"

namespace weft::test {

/// The fields, by their names in metrics.jsonl: of each kind of lane what is exposed, and what is under way.
inline constexpr std::array<std::pair<const char*, std::optional<double> report::StepMetrics::*>, 12>
    lane_seconds{{{"exposed_gather_s", &report::StepMetrics::exposed_gather_s},
                  {"gather_s", &report::StepMetrics::gather_s},
                  {"exposed_reduce_s", &report::StepMetrics::exposed_reduce_s},
                  {"reduce_s", &report::StepMetrics::reduce_s},
                  {"exposed_replica_s", &report::StepMetrics::exposed_replica_s},
                  {"replica_s", &report::StepMetrics::replica_s},
                  {"exposed_pipe_s", &report::StepMetrics::exposed_pipe_s},
                  {"pipe_s", &report::StepMetrics::pipe_s},
                  {"exposed_tensor_s", &report::StepMetrics::exposed_tensor_s},
                  {"tensor_s", &report::StepMetrics::tensor_s},
                  {"exposed_context_s", &report::StepMetrics::exposed_context_s},
                  {"context_s", &report::StepMetrics::context_s}}};

/// Sets them to 1, 2, ... 12 seconds.
inline void count_lane_seconds(report::StepMetrics& metrics) {
  double seconds = 0;
  for (const auto& [name, field] : lane_seconds) metrics.*field = ++seconds;
}

}  // namespace weft::test
