// Finds the largest of many errors.
#pragma once

#include <cmath>

namespace weft::test {

/// The larger of two errors. A NaN counts as larger than anything: std::max and std::fmax would drop it, and
/// a test that looks at the largest error alone would take a NaN for a good result.
template <class T>
T worse(T a, T b) {
  if (std::isnan(a)) return a;
  return b <= a ? a : b;
}

}  // namespace weft::test
