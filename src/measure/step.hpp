// Runs the kernels of a deck's training step, in the step's own memory and order.
#pragma once

#include <memory>
#include <vector>

#include "comm/world.hpp"
#include "machine/profile.hpp"
#include "measure/algorithms.hpp"
#include "runtime/session.hpp"

namespace weft::measure {

/// Collective: the kernels of all ranks by signature, each with the seconds of the slowest rank that has it;
/// FLOP and bytes are those of the first rank that has it. The stages of a pipe have different kernels.
std::vector<machine::KernelSample> of_all_ranks(comm::World& world,
                                                const std::vector<machine::KernelSample>& own);

class Step {
 public:
  /// Collective: plans the deck's step, checks that all ranks made the same plan and that there is enough
  /// memory, lets its products take their fastest algorithms, and binds it. Parameters are those that a run
  /// begins with, tokens are random, and neither changes. Throws Error(bad_input) where training would.
  Step(const Deck& deck, runtime::Session& session);

  /// By which algorithms the step's products run, and how they were chosen.
  const Algorithms& algorithms() const { return algorithms_; }
  /// Runs the step without its collectives.
  void run() { executor_->run(exec::Run::compute_only); }
  const plan::Plan& plan() const { return executor_->plan(); }
  /// Collective: seconds of run() on the slowest rank: the median of up to three runs that fit into
  /// `seconds`, after two that warm up.
  double seconds(double seconds);
  /// Collective: times every distinct kernel of all ranks' plans, in up to five traced runs of the step that
  /// fit into `seconds`. A kernel's time is the mean of the middle half of all times of its nodes, on the
  /// slowest rank that has it. A traced run waits for each kernel, which adds some microseconds to it on
  /// GPUs.
  std::vector<machine::KernelSample> kernels(double seconds);

 private:
  void upload_inputs(const Deck& deck);

  runtime::Session& session_;
  Algorithms algorithms_;
  std::unique_ptr<exec::Executor> executor_;
};

}  // namespace weft::measure
