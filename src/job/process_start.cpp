#include "job/process_start.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace weft::job {
namespace {

/// The field of this number of /proc/PID/stat, from the third on; empty when /proc does not show it. The file
/// reads "PID (NAME) STATE ...".
std::string field_of(std::int64_t pid, int number) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  const std::string stat{std::istreambuf_iterator<char>(in), {}};
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= number; ++i) fields >> field;
  return field;
}

}  // namespace

std::int64_t start_of(std::int64_t pid) {
  return std::strtoll(field_of(pid, 22).c_str(), nullptr, 10);
}

bool has_ended(std::int64_t pid) {
  const std::string state = field_of(pid, 3);
  return state == "Z" || state == "X";
}

double seconds_since_process_start() {
  const std::int64_t start = start_of(::getpid());
  timespec now{};
  if (start == 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const double began = static_cast<double>(start) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return std::max(0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - began);
}

}  // namespace weft::job
