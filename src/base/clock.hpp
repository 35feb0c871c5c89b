// The clock that durations are measured with.
#pragma once

#include <chrono>

namespace weft {

/// Seconds of the steady clock, from any origin.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace weft
