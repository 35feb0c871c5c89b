#include "io/mapped_files.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>

#include "base/check.hpp"

namespace weft::io {
namespace {

/// A file, as the signal's handler sees it. The signal may come at any time, so `begin` is set last and
/// cleared first: an entry without it does not count. Paths are never freed, because a handler may be reading
/// them.
struct Entry {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> size{0};
  std::atomic<const char*> path{nullptr};
};

constexpr int most_files = 1024;  // a signal in a file beyond these names none
std::array<Entry, most_files> entries;
std::mutex changes;
struct sigaction before {};

void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nobody listens, the exit code stays
}

void handle(int signal, siginfo_t* info, void* /*context*/) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Entry& entry : entries) {
    const std::uintptr_t begin = entry.begin.load();
    if (begin == 0 || at < begin || at >= begin + entry.size.load()) continue;
    say("weft: error: ");
    say(entry.path.load());
    say(": a part of the file cannot be read any more (it was cut while Weft was reading it, or its storage "
        "fails); put the whole file back, and start again\n");
    ::_exit(static_cast<int>(ExitCode::environment));
  }
  // The instruction runs again, and its signal goes to the earlier handler.
  ::sigaction(signal, &before, nullptr);
}

/// A copy of the path that lives as long as the program.
const char* kept(const std::string& path) {
  static auto& paths = *new std::set<std::string>;
  return paths.insert(path).first->c_str();
}

void listen() {
  struct sigaction now {};
  ::sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == handle) return;
  before = now;
  struct sigaction ours {};
  ours.sa_sigaction = handle;
  ours.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &ours, nullptr);
}

}  // namespace

MappedFileWatch::MappedFileWatch(const void* data, std::size_t size, const std::string& path) : slot_(-1) {
  const std::lock_guard lock(changes);
  listen();  // libraries (MPI) may have taken the signal since
  for (int i = 0; i < most_files && slot_ < 0; ++i)
    if (entries[static_cast<std::size_t>(i)].begin == 0) slot_ = i;
  if (slot_ < 0) return;
  Entry& entry = entries[static_cast<std::size_t>(slot_)];
  entry.path = kept(path);
  entry.size = size;
  entry.begin = reinterpret_cast<std::uintptr_t>(data);
}

MappedFileWatch::~MappedFileWatch() {
  if (slot_ < 0) return;
  const std::lock_guard lock(changes);
  entries[static_cast<std::size_t>(slot_)].begin = 0;
}

}  // namespace weft::io
