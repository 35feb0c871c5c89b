// When a process began, and whether it has ended.
#pragma once

#include <cstdint>

namespace weft::job {

/// When a process of this host began, in clock ticks since the host started; 0 when /proc does not show it.
/// No other process has both this and its number.
std::int64_t start_of(std::int64_t pid);

/// Whether all threads of a process of this host have ended and its number is still taken, because its parent
/// has not asked how it ended; false when /proc does not show it.
bool has_ended(std::int64_t pid);

/// Seconds since this process began; 0 when /proc does not show it.
double seconds_since_process_start();

}  // namespace weft::job
