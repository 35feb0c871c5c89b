// What one rank reaches in large kernels of each kind: what kernels that were not measured are estimated by.
#pragma once

#include "machine/profile.hpp"
#include "runtime/session.hpp"

namespace weft::measure {

/// Collective: fp32 and bf16 products, attention, a + b over arrays larger than the caches, and the smallest
/// kernel there is; all ranks at once, the median of five, the slowest rank.
machine::Compute measure_rates(runtime::Session& session);

/// Compute that keeps a rank as busy as training does, in pieces of about a fiftieth of a second.
class Busywork {
 public:
  explicit Busywork(runtime::Session& session);
  void run(int times);

 private:
  runtime::Session& session_;
  kernels::Matmul& matmul_;
  kernels::Buffer a_, b_, c_, scratch_;
};

}  // namespace weft::measure
