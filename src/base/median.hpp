// The median of measured values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weft {

/// The value in the middle of `values`, or the mean of the two in the middle when their number is even. There
/// must be at least one.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

}  // namespace weft
