#include "runtime/memory_usage.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/device.hpp"
#include "kernels/device_properties.hpp"

namespace weft::runtime {
namespace {

/// The number behind `name` ("\nVmRSS:", with the line's start); 0 when there is no such line.
std::int64_t field(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos) return 0;
  std::string_view rest = text.substr(at + name.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  std::int64_t value = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return value;
}

/// The file's text after a newline, so that each of its lines has one before it.
std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << '\n' << in.rdbuf();
  return text.str();
}

/// A file of one number; nothing when it is missing or says "max".
std::optional<std::int64_t> number_in(const std::filesystem::path& file) {
  const std::string text = text_of(file);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// The names of the same things in versions 1 and 2 of control groups.
struct GroupFiles {
  const char *limit, *used;
  /// Fields of memory.stat for what the kernel takes back before it kills a process.
  std::array<const char*, 3> cached;
};

/// The least that the group of this process, and each group above it up to `root`, leaves of its limit.
std::optional<std::int64_t> left_in_groups(const std::filesystem::path& root, std::string_view group,
                                           const GroupFiles& files) {
  std::optional<std::int64_t> least;
  for (std::filesystem::path path = group;; path = path.parent_path()) {
    const auto dir = root / path.relative_path();
    const auto limit = number_in(dir / files.limit), used = number_in(dir / files.used);
    if (limit && used) {
      const std::string stat = text_of(dir / "memory.stat");
      std::int64_t left = *limit - *used;
      for (const char* cached : files.cached) left += field(stat, cached);
      left = std::clamp<std::int64_t>(left, 0, *limit);
      least = std::min(least.value_or(left), left);
    }
    if (!path.has_relative_path()) return least;
  }
}

}  // namespace

void trim_heap() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void return_large_blocks() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

MemoryUsage memory_usage() {
  MemoryUsage usage;
  std::array<char, 8192> text;  // the whole file is about 1.5 kB
  if (const int fd = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC); fd >= 0) {
    const ssize_t n = ::read(fd, text.data(), text.size());
    ::close(fd);
    const std::string_view status(text.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    usage.rss_bytes = 1024 * field(status, "\nVmRSS:");
    usage.peak_rss_bytes = 1024 * field(status, "\nVmHWM:");
    usage.shared_bytes = 1024 * field(status, "\nRssShmem:");
    usage.own_bytes = 1024 * field(status, "\nRssAnon:") + usage.shared_bytes;
  }
  if (usage.peak_rss_bytes == 0) {
    rusage r{};
    ::getrusage(RUSAGE_SELF, &r);
    usage.peak_rss_bytes = std::int64_t{r.ru_maxrss} * 1024;
  }
  return usage;
}

std::optional<std::int64_t> available_memory(const std::filesystem::path& root) {
  constexpr GroupFiles version_1{
      "memory.limit_in_bytes",
      "memory.usage_in_bytes",
      {"\ntotal_inactive_file ", "\ntotal_active_file ", "\ntotal_slab_reclaimable "}};
  constexpr GroupFiles version_2{
      "memory.max", "memory.current", {"\ninactive_file ", "\nactive_file ", "\nslab_reclaimable "}};
  const std::string meminfo = text_of(root / "proc/meminfo");
  if (meminfo.find("\nMemAvailable:") == std::string::npos) return std::nullopt;
  std::int64_t available = 1024 * field(meminfo, "\nMemAvailable:");
  std::istringstream groups(text_of(root / "proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {  // "0::/path", or "4:cpu,memory:/path"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string group = line.substr(second + 1);
    std::optional<std::int64_t> left;
    if (controllers == ",,") left = left_in_groups(root / "sys/fs/cgroup", group, version_2);
    if (controllers.find(",memory,") != std::string::npos)
      left = left_in_groups(root / "sys/fs/cgroup/memory", group, version_1);
    available = std::min(available, left.value_or(available));
  }
  return available;
}

GpuShare gpu_share(int sharers) {
  const auto device = kernels::device_memory();
  if (!device) return {};
  return {(device->total - device->free) / sharers, device->free / sharers};
}

std::int64_t held_bytes(const comm::World& world) {
  return device_is_host() ? memory_usage().rss_bytes : gpu_share(world.device_sharers()).held;
}

std::int64_t sum_on_host(std::int64_t mine, comm::World& world) {
  const std::set<std::string> hosts(world.hosts().begin(), world.hosts().end());
  const auto here = static_cast<std::size_t>(std::distance(hosts.begin(), hosts.find(world.host())));
  std::vector<std::int64_t> sums(hosts.size());
  sums[here] = mine;
  world.all_reduce_sum(std::span(sums));
  return sums[here];
}

std::int64_t least_left_for_a_rank(comm::World& world) {
  world.barrier();
  std::int64_t mine = 0;
  if (device_is_host())
    mine = available_memory().value_or(0) / world.node_size();
  else
    mine = gpu_share(world.device_sharers()).available.value_or(0);
  std::array<double, 1> least{-static_cast<double>(mine)};
  world.all_reduce_max(least);
  return static_cast<std::int64_t>(-least[0]);
}

}  // namespace weft::runtime
