// What a run says at its end: where its steps went, beside what the plan said they would take.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "machine/cost_model.hpp"
#include "plan/plan.hpp"
#include "train/metrics.hpp"

namespace weft::train {

/// Seconds and bytes of a rank and step. Lanes are indexed by Lane; entries of the compute lane are 0.
struct StepParts {
  double step = 0;          ///< with the copying of inputs
  double compute_only = 0;  ///< the plan without collectives
  double compute = 0;       ///< the compute lane was busy
  std::array<double, lane_count> under_way{}, exposed{};
  double sent_bytes = 0;
  double wire = 0;  ///< what the links take for sent_bytes at their full rate, the profile's; sums over
                    ///< replicas alone when longer
  double memory_bytes = 0;
};

/// What the plan says: simulated, on the machine of the cost model. Its memory is for the caller to fill in.
StepParts planned_step(const plan::Plan& plan, const machine::CostModel& costs);

/// Collects the training steps of a run; the last 1,000 count, without the run's first.
class Summary {
 public:
  struct About {
    int ranks = 1;
    double compute_only_s = 0;  ///< measured at start-up; of no meaning with one rank
    StepParts planned;
    std::string source;  ///< of the profile that `planned` comes from
  };
  explicit Summary(About about) : about_(std::move(about)) {}

  void add(const StepMetrics& metrics);
  /// A table of medians, a line each: measured, planned, ratio. Nothing before a step was added. What the
  /// host cannot see (CUDA: waits) has no row; one rank has no rows of communication.
  std::vector<std::string> lines() const;

 private:
  About about_;
  std::deque<StepParts> steps_;
  double peak_bytes_ = 0;    ///< over all steps
  bool waits_seen_ = false;  ///< by the host
  bool any_ = false;
  bool first_is_in_ = false;  ///< steps_ holds the run's first step, for want of another
};

}  // namespace weft::train
