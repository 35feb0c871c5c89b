// Estimates what an arrangement takes without planning its whole model.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "advise/arrangement.hpp"
#include "machine/cost_model.hpp"
#include "plan/plan.hpp"

namespace weft::advise {

struct Estimate {
  double seconds = 0;      ///< of a step
  std::int64_t bytes = 0;  ///< of state and arena, on the fullest rank
};

/// Plans models of two and of four layers with the arrangement's other sizes, and goes on in a straight line
/// to the deck's number of layers and microbatches. Where schedule.recompute_ops has rules for some layers, a
/// layer is the mean of those with each set of rules. A pipe's schedule is simulated with the times of such
/// layers. Arrangements that differ only in their pipe's schedule share the short models. Threads may ask at
/// the same time.
class Estimator {
 public:
  /// Deck and costs outlive the estimator. `scratch` may be asked by several threads at a time.
  Estimator(const Deck& deck, int world, int per_host, plan::ScratchQuery scratch,
            const machine::CostModel& costs);
  ~Estimator();
  Estimator(const Estimator&) = delete;
  Estimator& operator=(const Estimator&) = delete;

  /// Throws Error(bad_input) where sizes do not divide.
  Estimate operator()(const Arrangement& arrangement);
  /// A lower bound of the bytes: the state, and what goes from layer to layer of one microbatch.
  std::int64_t least_bytes(const Arrangement& arrangement) const;

 private:
  struct Short;
  struct Line;
  Short planned(const Arrangement& arrangement, std::int64_t layers,
                const std::vector<std::string>& rules) const;
  Line line(const Arrangement& arrangement);
  Line planned_line(const Arrangement& arrangement) const;
  static Line line_through(const Short& two, const Short& four);
  Estimate of_pipe(const Arrangement& arrangement, const Line& line, std::int64_t microbatches);
  std::vector<std::int64_t> layers_of_stages(const Arrangement& arrangement);

  const Deck& deck_;
  const int world_, per_host_;
  const plan::ScratchQuery scratch_;
  const machine::CostModel& costs_;
  /// How many of the deck's layers have which rules of schedule.recompute_ops. In these the layers' numbers
  /// are open, so that they are rules for all layers of a short model.
  const std::map<std::vector<std::string>, std::int64_t> layers_of_rules_;
  std::mutex mutex_;
  std::map<std::string, std::shared_future<Line>> lines_;
  /// The layers of each stage, by the number of stages and whether they are folded.
  std::map<std::pair<std::int64_t, bool>, std::vector<std::int64_t>> stages_;
};

}  // namespace weft::advise
