// What a run says at its end: where its steps went, beside what the plan said they would take.
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

/// Collects the training steps of a run; the last 1,000 count, without the run's first.
class Summary {
 public:
  struct About {
    int ranks = 1;
    double compute_only_s = 0;  ///< measured at start-up; of no meaning with one rank
    compile::StepParts planned;
    std::string profile;  ///< a measured one, which the planned seconds come from; empty: there is none
  };
  explicit Summary(About about) : about_(std::move(about)) {}

  void add(const StepMetrics& metrics);
  /// A table of medians, a line each: measured, planned, ratio. Nothing before a step was added. What the
  /// host cannot see (CUDA: waits) has no row; one rank has no rows of communication. Without a measured
  /// profile nothing is said of planned seconds: only bytes have a planned column then.
  std::vector<std::string> lines() const;

 private:
  About about_;
  std::deque<compile::StepParts> steps_;
  double peak_bytes_ = 0;    ///< over all steps
  bool waits_seen_ = false;  ///< by the host
  bool any_ = false;
  bool first_is_in_ = false;  ///< steps_ holds the run's first step, for want of another
};

}  // namespace weft::report
