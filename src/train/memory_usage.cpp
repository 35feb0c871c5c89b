#include "train/memory_usage.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace weft::train {
namespace {

/// The value of a line "VmRSS:     1234 kB", in bytes; 0 when there is no such line.
std::int64_t field_bytes(std::string_view status, std::string_view name) {
  const auto at = status.find(name);
  if (at == std::string_view::npos) return 0;
  std::string_view rest = status.substr(at + name.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  std::int64_t kib = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), kib);
  return kib * 1024;
}

}  // namespace

MemoryUsage memory_usage() {
  MemoryUsage usage;
  std::array<char, 8192> text;  // the whole file is about 1.5 kB
  if (const int fd = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC); fd >= 0) {
    const ssize_t n = ::read(fd, text.data(), text.size());
    ::close(fd);
    const std::string_view status(text.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    usage.rss_bytes = field_bytes(status, "\nVmRSS:");
    usage.peak_rss_bytes = field_bytes(status, "\nVmHWM:");
  }
  if (usage.peak_rss_bytes == 0) {
    rusage r{};
    ::getrusage(RUSAGE_SELF, &r);
    usage.peak_rss_bytes = std::int64_t{r.ru_maxrss} * 1024;
  }
  return usage;
}

}  // namespace weft::train
