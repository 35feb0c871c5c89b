// Asks the operating system how much memory this process holds, and how much it can still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace weft::runtime {

struct MemoryUsage {
  std::int64_t rss_bytes = 0;       ///< resident now, shared pages included
  std::int64_t peak_rss_bytes = 0;  ///< the most resident so far
  std::int64_t shared_bytes = 0;    ///< part of rss_bytes: memory shared with other processes, however many
  /// Part of rss_bytes that belongs to no file, and counts against control groups.
  std::int64_t own_bytes = 0;
};

/// Gives memory that the allocator holds, but nobody uses, back to the system.
void trim_heap();

/// VmRSS and VmHWM of /proc/self/status, in bytes. Where a kernel does not report one, the peak comes from
/// getrusage, and the other number is 0. Takes some tens of microseconds and allocates nothing.
MemoryUsage memory_usage();

/// What a process holds, and can still take, of the memory that plans are about: a GPU's, or the host's.
struct RankMemory {
  std::int64_t held = 0;                  ///< on a GPU, its share of what all hold
  std::optional<std::int64_t> available;  ///< its share of what is left; empty when the system does not say
};
/// `ranks` are those of this host, which use its GPUs in equal numbers.
RankMemory rank_memory(int ranks);

/// Bytes that this host's processes can still take: MemAvailable of /proc/meminfo or, if it is less, what the
/// process's control groups (Slurm's, a container's) leave. The result is empty when the system does not say.
/// Tests put another directory in the place of "/" by `root`.
std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace weft::runtime
