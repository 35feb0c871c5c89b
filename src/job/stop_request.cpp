#include "job/stop_request.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>

#include "base/clock.hpp"
#include "base/log.hpp"

namespace weft::job {
namespace {

// The signal's handler touches these. It may do so only because they are free of locks.
std::atomic<int> g_signal{0};
std::atomic<std::int64_t> g_terminated_ns{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

/// Signals within this time are one request: it often arrives several times at once, from a launcher and from
/// whoever signals its process group.
constexpr std::int64_t same_request_ns = 1'000'000'000;

std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

extern "C" void remember_signal(int number) {
  const int error = errno;
  if (number == SIGTERM) {
    const std::int64_t now = now_ns();
    std::int64_t first = 0;
    if (!g_terminated_ns.compare_exchange_strong(first, now) && now - first >= same_request_ns) {
      ::signal(SIGTERM, SIG_DFL);
      ::raise(SIGTERM);  // takes effect when this handler returns
    }
  }
  int none = 0;
  g_signal.compare_exchange_strong(none, number);
  errno = error;
}

const char* name_of_signal(int number) {
  switch (number) {
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "SIGHUP";
    case SIGUSR1: return "SIGUSR1";
    default: return "SIGUSR2";
  }
}

constexpr std::array stop_signals{SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// A signal's request as a number: its signal's number and, counted down, its rank.
constexpr double signal_unit = 4294967296.0, rank_zero = 2147483648.0;
constexpr double file_request = 256 * signal_unit;

}  // namespace

void catch_stop_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_IGN);
  for (const int number : stop_signals) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    if (number == SIGHUP && now.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = remember_signal;
    action.sa_flags = SA_RESTART;  // lets reads, writes and fsync go on as if nothing had happened
    ::sigemptyset(&action.sa_mask);
    ::sigaction(number, &action, nullptr);
  }
}

void release_stop_signals() {
  for (const int number : stop_signals) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    if (now.sa_handler == remember_signal) ::signal(number, SIG_DFL);
  }
}

StopRequest::StopRequest(const std::string& run_dir, int rank)
    : file_(run_dir + "/STOP"), rank_(rank), looked_(-std::numeric_limits<double>::infinity()) {}

double StopRequest::seen() {
  if (rank_ == 0 && !file_seen_ && seconds_now() - looked_ >= 1) {
    looked_ = seconds_now();
    file_seen_ = ::access(file_.c_str(), F_OK) == 0;
  }
  if (file_seen_) return file_request;
  const int number = g_signal.load();
  return number == 0 ? 0 : number * signal_unit + rank_zero - rank_;
}

bool StopRequest::by_file(double request) {
  return request >= file_request;
}

std::string StopRequest::text(double request) const {
  if (request <= 0) return {};
  if (by_file(request)) return "the file " + file_;
  const double number = std::floor(request / signal_unit);
  return fmt::format("{} on rank {}", name_of_signal(static_cast<int>(number)),
                     static_cast<int>(number * signal_unit + rank_zero - request));
}

void StopRequest::remove_file() const {
  if (rank_ == 0 && ::unlink(file_.c_str()) != 0 && errno != ENOENT)
    log::warn("cannot remove {} ({}): the next start will stop, too", file_, std::strerror(errno));
}

}  // namespace weft::job
