#include "job/process_start.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace weft::job {
namespace {

/// The fields 3, 20 and 22 of /proc/PID/stat; empty and 0 when /proc does not show it. They are read at once,
/// so that they belong together.
struct Stat {
  std::string state;
  std::int64_t threads = 0, start = 0;
};

/// The file reads "PID (NAME) STATE ...".
Stat stat_of(std::int64_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  Stat stat;
  std::string other;
  fields >> stat.state;
  for (int i = 4; i < 20; ++i) fields >> other;
  fields >> stat.threads >> other >> stat.start;
  return stat;
}

}  // namespace

std::int64_t start_of(std::int64_t pid) {
  return stat_of(pid).start;
}

bool has_ended(std::int64_t pid) {
  const Stat stat = stat_of(pid);
  // The state is that of the first thread, and others may run on: after SIGKILL, one whose storage does not
  // answer. A process that has ended shows 1 thread, or 0 while it is taken away.
  return (stat.state == "Z" || stat.state == "X") && stat.threads <= 1;
}

double seconds_since_process_start() {
  const std::int64_t start = start_of(::getpid());
  timespec now{};
  if (start == 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double began = static_cast<double>(start) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return std::max(0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - began);
}

}  // namespace weft::job
