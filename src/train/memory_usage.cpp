#include "train/memory_usage.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace weft::train {
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

/// How version 1 and 2 of control groups name the same things.
struct GroupFiles {
  const char *limit, *used;
  const char* inactive;  ///< a field of memory.stat
};

/// What the group of this process, and each above it up to `root`, leaves of its limit; the least of them.
/// Cached file pages that are not in use count as free.
std::optional<std::int64_t> left_in_groups(const std::filesystem::path& root, std::string_view group,
                                           const GroupFiles& files) {
  std::optional<std::int64_t> least;
  for (std::filesystem::path path = group;; path = path.parent_path()) {
    const auto dir = root / path.relative_path();
    const auto limit = number_in(dir / files.limit), used = number_in(dir / files.used);
    if (limit && used) {
      const std::int64_t inactive = field(text_of(dir / "memory.stat"), files.inactive);
      const std::int64_t left = std::max<std::int64_t>(0, *limit - *used + inactive);
      least = std::min(least.value_or(left), left);
    }
    if (!path.has_relative_path()) return least;
  }
}

}  // namespace

MemoryUsage memory_usage() {
  MemoryUsage usage;
  std::array<char, 8192> text;  // the whole file is about 1.5 kB
  if (const int fd = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC); fd >= 0) {
    const ssize_t n = ::read(fd, text.data(), text.size());
    ::close(fd);
    const std::string_view status(text.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    usage.rss_bytes = 1024 * field(status, "\nVmRSS:");
    usage.peak_rss_bytes = 1024 * field(status, "\nVmHWM:");
  }
  if (usage.peak_rss_bytes == 0) {
    rusage r{};
    ::getrusage(RUSAGE_SELF, &r);
    usage.peak_rss_bytes = std::int64_t{r.ru_maxrss} * 1024;
  }
  return usage;
}

std::int64_t available_memory(const std::filesystem::path& root) {
  std::int64_t available = 1024 * field(text_of(root / "proc/meminfo"), "\nMemAvailable:");
  std::istringstream groups(text_of(root / "proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {  // "0::/path", or "4:memory:/path"
    const auto second = line.rfind(':');
    const std::string group = line.substr(second + 1);
    std::optional<std::int64_t> left;
    if (line.starts_with("0::"))
      left =
          left_in_groups(root / "sys/fs/cgroup", group, {"memory.max", "memory.current", "\ninactive_file "});
    else if (line.find(":memory:") != std::string::npos)
      left = left_in_groups(root / "sys/fs/cgroup/memory", group,
                            {"memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file "});
    if (left) available = std::min(available, *left);
  }
  return available;
}

}  // namespace weft::train
