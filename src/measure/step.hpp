// The kernels of a deck's training step, in the step's own memory and order.
#pragma once

#include <memory>
#include <vector>

#include "machine/profile.hpp"
#include "runtime/session.hpp"

namespace weft::measure {

class Step {
 public:
  /// Collective: plans the deck's step, checks that all ranks made the same plan and that memory is enough,
  /// and binds it. Parameters are a run's first, tokens random, and stay so. Throws Error(bad_input) as
  /// training would.
  Step(const Deck& deck, runtime::Session& session);

  /// The step without its collectives.
  void run() { executor_->run(exec::Run::compute_only); }
  const plan::Plan& plan() const { return executor_->plan(); }
  /// Collective: seconds of run() after two that warm up, the median of up to three that fit into `seconds`,
  /// on the slowest rank.
  double seconds(double seconds);
  /// Collective: every distinct kernel of the plan, from up to five traced runs of the step that fit into
  /// `seconds`: the mean of the middle half of all times of its nodes, on the slowest rank. A traced run
  /// waits for each kernel; on GPUs that adds some microseconds to it.
  std::vector<machine::KernelSample> kernels(double seconds);

 private:
  void upload_inputs(const Deck& deck);

  runtime::Session& session_;
  std::unique_ptr<exec::Executor> executor_;
};

}  // namespace weft::measure
