#include "job/run_owner.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.hpp"
#include "job/process_start.hpp"

namespace weft::job {
namespace {

/// RunOwner::kernel of this process; empty where it cannot be known. Containers on one host have one boot,
/// but each has process numbers of its own.
std::string this_kernel() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> numbers{};
  const ssize_t n = ::readlink("/proc/self/ns/pid", numbers.data(), numbers.size());
  if (boot.empty() || n <= 0) return {};
  return fmt::format("{} {}", boot, std::string_view(numbers.data(), static_cast<std::size_t>(n)));
}

}  // namespace

RunOwner this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const char* const job = std::getenv("SLURM_JOB_ID");
  RunOwner me;
  me.host = host.data();
  me.kernel = this_kernel();
  me.pid = ::getpid();
  me.started = start_of(me.pid);
  me.job = job == nullptr ? "" : job;
  me.since = utc_now();
  return me;
}

std::string to_text(const RunOwner& owner) {
  nlohmann::ordered_json line;
  line["host"] = owner.host;
  line["pid"] = owner.pid;
  line["job"] = owner.job;
  line["since"] = owner.since;
  line["kernel"] = owner.kernel;
  line["started"] = owner.started;
  // What a name has that is not UTF-8 is replaced: the run could not begin for it.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::optional<RunOwner> owner_from(const std::string& text) {
  const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return std::nullopt;
  try {
    RunOwner owner;
    owner.host = line.at("host");
    owner.pid = line.at("pid");
    owner.job = line.at("job");
    owner.since = line.at("since");
    owner.kernel = line.at("kernel");
    owner.started = line.at("started");
    return owner;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string in_words(const RunOwner& owner) {
  return fmt::format("process {} on {}{}, since {}", owner.pid, owner.host,
                     owner.job.empty() ? "" : ", Slurm job " + owner.job, owner.since);
}

bool is_of_this_kernel(const RunOwner& owner) {
  const std::string here = this_kernel();
  return !here.empty() && owner.kernel == here;
}

bool is_running(const RunOwner& owner) {
  const auto pid = static_cast<pid_t>(owner.pid);
  if (pid != owner.pid || pid <= 0 || (::kill(pid, 0) != 0 && errno == ESRCH)) return false;
  const std::int64_t start = start_of(pid);
  // A start of 0 says that /proc does not show when it began; it is there all the same.
  return (start == 0 || start == owner.started) && !has_ended(pid);
}

}  // namespace weft::job
