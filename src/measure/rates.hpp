// Measures what one rank reaches in large kernels of each kind. Kernels that were not measured are estimated
// by that.
#pragma once

#include "machine/profile.hpp"
#include "runtime/session.hpp"

namespace weft::measure {

/// Collective: measures products in fp32, bf16 and, where the device makes them, Float8, attention, a + b
/// over arrays larger than the caches, and the smallest kernel there is. The operands of products and
/// attention are noise. All ranks measure at once; a rank's time is the median of five, and the slowest rank
/// counts.
machine::Compute measure_rates(runtime::Session& session);

/// Compute that keeps a rank as busy as training does, in pieces of about a fiftieth of a second.
class Busywork {
 public:
  explicit Busywork(runtime::Session& session);
  void run(int times);

 private:
  runtime::Session& session_;
  kernels::Matmul matmul_;
  kernels::Buffer a_, b_, c_, scratch_;
};

}  // namespace weft::measure
