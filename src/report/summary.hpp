// Tells at a run's end where its steps' time went, beside what the plan said.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "compile/planned_step.hpp"
#include "report/metrics.hpp"

namespace weft::report {

/// Collects the training steps of a run. The last 1,000 count, without the run's first one.
class Summary {
 public:
  struct About {
    int ranks = 1;
    double compute_only_s = 0;  ///< measured at start-up; without meaning on one rank
    compile::StepParts planned;
    std::string profile;  ///< a measured one, which the planned seconds come from; empty: there is none
  };
  explicit Summary(About about) : about_(std::move(about)) {}

  void add(const StepMetrics& metrics);
  /// A table of medians, with a line for each: measured, planned, ratio. It is empty before a step was added.
  /// What the host cannot see (waits, on CUDA) has no row, and with one rank there are no rows of
  /// communication. Without a measured profile nothing is said of planned seconds: only bytes have a planned
  /// column then.
  std::vector<std::string> lines() const;

 private:
  About about_;
  std::deque<compile::StepParts> steps_;
  double peak_bytes_ = 0;    ///< the most of all steps
  bool waits_seen_ = false;  ///< whether the host sees waits
  bool any_ = false;
  bool first_is_in_ = false;  ///< steps_ holds the run's first step, because there is no other yet
};

}  // namespace weft::report
