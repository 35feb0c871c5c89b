// Asks the operating system, or the GPU, how much memory this process holds, and how much it can still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "comm/world.hpp"

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

/// From here on, blocks of 1 MiB and more go back to the system as soon as they are freed. Without that, how
/// much of them stays resident differs from run to run: glibc moves its limit up to the largest block that
/// was freed, and aligned blocks are seldom put where the last one was.
void return_large_blocks();

/// VmRSS and VmHWM of /proc/self/status, in bytes. Where a kernel does not report one, the peak comes from
/// getrusage, and the other number is 0. Takes some tens of microseconds and allocates nothing.
MemoryUsage memory_usage();

/// What a rank holds of its GPU's memory and can still take, where it shares the GPU with others in equal
/// parts.
struct GpuShare {
  std::int64_t held = 0;                  ///< with what CUDA and its libraries hold
  std::optional<std::int64_t> available;  ///< empty where CUDA does not say
};
GpuShare gpu_share(int sharers);
/// What a rank holds of the memory that plans are about: its share of its GPU's, or its resident memory.
std::int64_t held_bytes(const comm::World& world);

/// Collective: the sum of what the ranks of this rank's host give.
std::int64_t sum_on_host(std::int64_t mine, comm::World& world);

/// Collective: what is left for each rank, in equal parts, of the memory that plans are about, where the
/// least is left; 0 where a rank cannot tell. Ranks look when all have come here, so that nobody still holds
/// what it has measured with.
std::int64_t least_left_for_a_rank(comm::World& world);

/// Bytes that this host's processes can still take: MemAvailable of /proc/meminfo or, if it is less, what the
/// process's control groups (Slurm's, a container's) leave. The result is empty when the system does not say.
/// Tests put another directory in the place of "/" by `root`.
std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace weft::runtime
