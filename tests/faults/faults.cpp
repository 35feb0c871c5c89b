// A library for LD_PRELOAD that lets one system call on files fail, once. perf/trials/faults.py uses it.
//
//   WEFT_FAULTS_UNDER    directories whose files count (places.hpp); without it the library does nothing
//   WEFT_FAULTS_RANK     the rank that it works on (0); the others run as ever
//   WEFT_FAULTS_LOG      a file that gets a line for each call, "CALL NUMBER FILE" with tabs between; with a
//                        fault, only the line of that call, and what came of it
//   WEFT_FAULTS_AT       the call that fails, as it stands in such a line
//   WEFT_FAULTS_ERROR    its errno; 0 lets half of the bytes be read or written; -1: it never comes back;
//                        -2: neither does any later call (the file system is dead); -3: the process stops
//                        before the call, which is made as ever once a SIGCONT lets the process go on
//
// A call is numbered among those of its name on its file, so that what other threads do on other files moves
// no number. A descriptor that is closed is closed, whatever close() says.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "faults/places.hpp"
#include "faults/trap.hpp"

namespace weft::faults {
namespace {

int g_log = -1;
std::string_view g_at;
long g_error = 0;
constexpr long dead_file_system = -2, stopped_process = -3;
std::atomic<bool> g_dead{false};

class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) continue;
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

/// Counts calls by a hash of call and file, in memory that is there from the start.
class Counter {
 public:
  std::uint32_t next(std::string_view call, std::string_view file) {
    std::uint64_t hash = 14695981039346656037U;  // FNV-1a
    for (const std::string_view part : {call, file})
      for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    lock_.lock();
    std::size_t slot = hash % slots_.size();
    while (slots_.at(slot).count > 0 && slots_.at(slot).hash != hash) slot = (slot + 1) % slots_.size();
    slots_.at(slot).hash = hash;
    const std::uint32_t count = ++slots_.at(slot).count;
    lock_.unlock();
    return count;
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t count = 0;
  };
  SpinLock lock_;
  std::array<Slot, std::size_t{1} << 15> slots_{};
};
Counter g_counter;

/// Cuts vectors to the first half of the bytes that they hold.
long halve(const iovec* from, long count, std::array<iovec, 16>& half) {
  count = std::min<long>(count, static_cast<long>(half.size()));
  std::size_t bytes = 0;
  for (long i = 0; i < count; ++i) bytes += from[i].iov_len;
  std::size_t left = std::max<std::size_t>(bytes / 2, 1);
  for (long i = 0; i < count; ++i) {
    half.at(static_cast<std::size_t>(i)) = {from[i].iov_base, std::min(from[i].iov_len, left)};
    left -= half.at(static_cast<std::size_t>(i)).iov_len;
  }
  return count;
}

bool has_vectors(const SystemCall& call) {
  return std::string_view(call.name).find("readv") != std::string_view::npos ||
         std::string_view(call.name).find("writev") != std::string_view::npos;
}

/// Makes a read return half of what it would have returned. What it leaves out stays in the file.
long read_half(const SystemCall& call, const Arguments& a) {
  const long n = call_kernel(call.number, a);
  if (n < 2) return n;
  if (call.number == SYS_read || call.number == SYS_readv)
    call_kernel_with(SYS_lseek, a[0], n / 2 - n, SEEK_CUR);
  return n / 2;
}

long write_half(const SystemCall& call, Arguments a) {
  std::array<iovec, 16> half;
  if (has_vectors(call)) {
    a[2] = halve(to_pointer<const iovec>(a[1]), a[2], half);
    a[1] = to_argument(half.data());
  } else {
    a[2] = std::max(a[2] / 2, 1L);
  }
  return call_kernel(call.number, a);
}

[[noreturn]] void hang() {
  for (;;) call_kernel_with(SYS_pause);
}

/// Stops all threads until a SIGCONT comes, this one before it does anything else.
void stop_process() {
  call_kernel_with(SYS_tgkill, call_kernel_with(SYS_getpid), call_kernel_with(SYS_gettid), SIGSTOP);
}

long fail(const SystemCall& call, const Arguments& arguments) {
  if (g_error == stopped_process) {
    stop_process();
    return call_kernel(call.number, arguments);
  }
  if (g_error == dead_file_system) g_dead = true;
  if (g_error < 0) hang();
  if (g_error == 0 && call.transfer == Transfer::read) return read_half(call, arguments);
  if (g_error == 0 && call.transfer == Transfer::write) return write_half(call, arguments);
  if (call.number == SYS_close) call_kernel(call.number, arguments);
  return -g_error;
}

void write_log(std::string_view line) {
  if (g_log >= 0) call_kernel_with(SYS_write, g_log, line.data(), line.size());
}

/// Writes "CALL NUMBER FILE", with room for more.
std::string_view describe(std::string_view call, std::uint32_t number, std::string_view file, Text& text) {
  char* at = std::copy(call.begin(), call.end(), text.data());
  *at++ = '\t';
  at = std::to_chars(at, at + 12, number).ptr;
  *at++ = '\t';
  at = std::copy(file.begin(), file.begin() + std::min<std::ptrdiff_t>(std::ssize(file), 4096), at);
  return {text.data(), static_cast<std::size_t>(at - text.data())};
}

/// The name of a call. An open that may make the file has a name of its own, because it fails in other ways.
const char* name_of(const SystemCall& call, const Arguments& arguments) {
  const bool creates = (call.number == SYS_open && (arguments[1] & O_CREAT) != 0) ||
                       (call.number == SYS_openat && (arguments[2] & O_CREAT) != 0);
  return creates ? "open+create" : call.name;
}

long answer(const SystemCall& call, Arguments arguments) {
  Text file, line;
  if (!name_of_file(call, arguments, file)) return call_kernel(call.number, arguments);
  if (g_dead) hang();
  const char* const name = name_of(call, arguments);
  const std::string_view point = describe(name, g_counter.next(name, file.data()), file.data(), line);
  char* end = line.data() + point.size();
  if (g_at.empty()) {
    *end++ = '\n';
    write_log({line.data(), static_cast<std::size_t>(end - line.data())});
    return call_kernel(call.number, arguments);
  }
  if (point != g_at) return call_kernel(call.number, arguments);
  const long result = fail(call, arguments);
  *end++ = '\t';
  end = std::to_chars(end, end + 24, result).ptr;
  *end++ = '\n';
  write_log({line.data(), static_cast<std::size_t>(end - line.data())});
  return result;
}

const char* variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

/// Opens the log at a descriptor that the program's own files never have.
void open_log(const char* path) {
  if (path[0] == '\0') return;
  const int low = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  g_log = ::fcntl(low, F_DUPFD_CLOEXEC, 700);
  ::close(low);
}

__attribute__((constructor)) void start() {
  const char* const under = variable("WEFT_FAULTS_UNDER", "");
  const std::string_view rank = variable("OMPI_COMM_WORLD_RANK", "0");
  if (under[0] == '\0' || rank != variable("WEFT_FAULTS_RANK", "0")) return;
  watch_directories(under);
  open_log(variable("WEFT_FAULTS_LOG", ""));
  g_at = variable("WEFT_FAULTS_AT", "");
  g_error = std::strtol(variable("WEFT_FAULTS_ERROR", "5"), nullptr, 10);
  if (!catch_system_calls(answer)) std::abort();
}

}  // namespace
}  // namespace weft::faults
