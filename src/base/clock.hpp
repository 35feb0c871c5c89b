// The clock that durations are measured with.
#pragma once

#include <chrono>
#include <cstdint>

namespace weft {

/// Seconds of the steady clock, from any origin.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Nanoseconds of the same clock.
inline std::int64_t nanoseconds_now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace weft
