// Counts how much of a value is NaN or infinite.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

struct NonfiniteCount {
  std::int64_t nans = 0;
  std::int64_t infinities = 0;
  bool any() const { return nans + infinities > 0; }
};

/// Counts in `data` [n] on the device, which is f32, bf16 or f64; integers have none. It runs on `space`
/// after what is enqueued there, and the host waits for it. It is for debugging.
NonfiniteCount count_nonfinite(Space& space, std::int64_t n, const void* data, DType t);

}  // namespace weft::kernels
