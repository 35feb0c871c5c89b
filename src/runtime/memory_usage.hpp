// What the operating system says this process holds, beside what the memory plan says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace weft::runtime {

struct MemoryUsage {
  std::int64_t rss_bytes = 0;       ///< resident now, shared pages included
  std::int64_t peak_rss_bytes = 0;  ///< the most so far
  std::int64_t shared_bytes = 0;    ///< of rss_bytes, memory shared with other processes, however many
  std::int64_t own_bytes = 0;       ///< of rss_bytes, what is no file's: counted against control groups
};

/// Gives what the allocator holds for nobody back to the system.
void trim_heap();

/// VmRSS and VmHWM of /proc/self/status, in bytes; a kernel that does not report one leaves it to getrusage
/// (peak) or 0. Costs some tens of microseconds and allocates nothing.
MemoryUsage memory_usage();

/// Bytes that this host's processes can still take: MemAvailable of /proc/meminfo or, if it is less, what the
/// process's control groups (Slurm's, a container's) leave. Nothing when the system does not say. `root`
/// stands for
/// "/" in tests.
std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace weft::runtime
