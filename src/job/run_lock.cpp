#include "job/run_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"
#include "io/descriptor.hpp"
#include "io/small_file.hpp"
#include "job/run_owner.hpp"

namespace weft::job {
namespace {

using std::chrono::milliseconds;

/// Locks the open file, not the process, so that the lock ends with the last descriptor, however the process
/// ends. Returns false when somebody else holds it. Some file systems know no locks, or have none at the
/// moment; then nothing is locked.
bool take_kernel_lock(int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
}

/// Throws when storage answers with an error: it has said nothing about who holds the lock, so no decision
/// may rest on it.
void expect_answer(bool answered, const char* what, const std::string& path) {
  WEFT_SYSTEM(answered, "cannot {} {} ({}); see to its file system", what, path, std::strerror(errno));
}

struct stat status_of(int fd, const std::string& path) {
  struct stat s {};
  expect_answer(::fstat(fd, &s) == 0, "look at", path);
  return s;
}

milliseconds changed_at(int fd, const std::string& path) {
  const struct stat s = status_of(fd, path);
  return milliseconds(std::int64_t{s.st_mtim.tv_sec} * 1000 + s.st_mtim.tv_nsec / 1'000'000);
}

void refresh(int fd, const std::string& path) {
  expect_answer(::futimens(fd, nullptr) == 0, "refresh", path);
}

/// Whether `path` is still the name of the open file.
bool names(const std::string& path, int fd) {
  struct stat named {};
  const bool there = ::stat(path.c_str(), &named) == 0;
  expect_answer(there || errno == ENOENT, "look at", path);
  return there && status_of(fd, path).st_ino == named.st_ino;
}

/// Gives `from` the name `to` unless that exists (EEXIST). NFS cannot rename in this way, but it can link;
/// and it may make the link and say that it did not.
bool rename_to_free(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  const int linked = ::link(from.c_str(), to.c_str());
  const int error = errno;
  struct stat s {};
  const bool done = linked == 0 || (::stat(from.c_str(), &s) == 0 && s.st_nlink == 2);
  if (done) ::unlink(from.c_str());
  errno = error;
  return done;
}

constexpr const char* another_run = "another run writes here";

[[noreturn]] void refuse(const std::string& dir, const char* why, const std::string& who,
                         const std::string& more = {}) {
  throw Error(ExitCode::bad_input,
              fmt::format("{}: {} ({}); wait for its end or choose another run.dir{}", dir, why, who, more));
}

}  // namespace

RunLock::RunLock(const std::string& dir, Lost lost, Timing timing)
    : dir_(dir), path_(dir + "/lock"), lost_(std::move(lost)), timing_(timing) {
  const RunOwner me = this_process();
  text_ = to_text(me);
  own_ = fmt::format("{}.{}.{}", path_, me.host, me.pid);
  try {
    write_own();
    while (!place()) settle();
  } catch (...) {
    if (fd_ >= 0) ::close(fd_);
    ::unlink(own_.c_str());
    throw;
  }
  thread_ = std::thread([this] { beat(); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard guard(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (is_mine()) ::unlink(path_.c_str());
  ::close(fd_);  // last, because a file without a lock on it is a dead run's
}

/// Whether the lock is this run's. A lock that cannot be read may be another run's, and stays.
bool RunLock::is_mine() const {
  try {
    return io::read_if_there(path_) == text_;
  } catch (const Error&) {
    return false;
  }
}

/// Writes the lock under a name of its own, so that it is locked before anyone sees it as DIR/lock.
void RunLock::write_own() {
  ::unlink(own_.c_str());  // a dead process with this number may have left it
  fd_ = ::open(own_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  WEFT_SYSTEM(fd_ >= 0, "cannot write {} ({}); choose a writable run.dir", own_, std::strerror(errno));
  take_kernel_lock(fd_);
  const ssize_t n = ::write(fd_, text_.data(), text_.size());
  WEFT_SYSTEM(n == static_cast<ssize_t>(text_.size()),
              "cannot write {} ({}); free space or choose another run.dir", own_,
              std::strerror(n < 0 ? errno : ENOSPC));
}

bool RunLock::place() {
  if (rename_to_free(own_, path_)) return true;
  WEFT_SYSTEM(errno == EEXIST, "cannot make {} ({}); choose a run.dir on another file system", path_,
              std::strerror(errno));
  return false;
}

/// Looks at the lock that is there. Returns when it is gone, and throws when its owner lives, or when nothing
/// can be known about it.
void RunLock::settle() {
  const io::Descriptor file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return;
  WEFT_SYSTEM(file.get() >= 0, "cannot open {} ({}); choose another run.dir", path_, std::strerror(errno));
  const bool held = !take_kernel_lock(file.get());
  const std::optional<std::string> text = io::read_if_there(path_);
  if (!text) return;
  const std::optional<RunOwner> owner = owner_from(*text);
  const std::string who = owner ? in_words(*owner) : "its lock says nothing";
  const bool here = owner && is_of_this_kernel(*owner);
  if (held) {
    // A run elsewhere that is silent may be stopped (SIGSTOP, a suspended Slurm job) and hold it itself.
    const bool dead = here && !is_running(*owner);
    refuse(dir_, dead ? "another start is looking at the lock of a dead run" : another_run, who);
  }
  if (!names(path_, file.get())) return;  // another run has it now
  // That the kernel's lock is free proves nothing: the owner may not have got it.
  if (here ? is_running(*owner) : shows_life(*text, who))
    refuse(dir_, another_run, who, here ? "" : fmt::format("; if it is dead, remove {}", path_));
  remove(*text);
  note_ = fmt::format("took over the run directory of a run that is dead ({})", who);
}

/// Whether an owner on another host lives: whether its file is refreshed, or goes, before it is too old.
bool RunLock::shows_life(const std::string& text, const std::string& who) const {
  const milliseconds first = silence();
  if (first >= timing_.stale) return false;
  log::info(
      "{} is locked from another host or container ({}): waiting up to {} s for a sign that this run lives",
      dir_, who, (timing_.stale - first).count() / 1000 + 1);
  for (milliseconds last = first;;) {
    std::this_thread::sleep_for(std::min(timing_.beat, milliseconds(1000)));
    // It is gone or another run's, which remove() will see.
    if (io::read_if_there(path_) != text) return false;
    const milliseconds now = silence();
    if (now < last) return true;
    if (now >= timing_.stale) return false;
    last = now;
  }
}

/// How long ago the lock that is there was refreshed, by the clock of the file system.
milliseconds RunLock::silence() const {
  refresh(fd_, own_);
  const io::Descriptor file(
      ::open(path_.c_str(), O_RDWR | O_CLOEXEC));  // opening it asks the server, where attributes are cached
  if (file.get() < 0 && errno == ENOENT) return milliseconds(0);
  expect_answer(file.get() >= 0, "open", path_);
  return changed_at(fd_, own_) - changed_at(file.get(), path_);
}

/// Removes the lock with this content, and no other.
void RunLock::remove(const std::string& text) const {
  const std::string aside = own_ + ".old";
  const bool moved = ::rename(path_.c_str(), aside.c_str()) == 0;
  if (!moved && errno == ENOENT) return;  // somebody else has removed it
  expect_answer(moved, "move", path_);
  try {
    if (io::read_if_there(aside) != text) rename_to_free(aside, path_);
  } catch (...) {  // the lock may be a living run's
    rename_to_free(aside, path_);
    throw;
  }
  ::unlink(aside.c_str());
}

void RunLock::moved_to(const std::string& dir) {
  const std::lock_guard guard(mutex_);
  dir_ = dir;
  path_ = dir + "/lock";
}

void RunLock::beat() {
  std::unique_lock guard(mutex_);
  while (!wake_.wait_for(guard, timing_.beat, [this] { return ended_; })) {
    const std::string why = taken_by();
    if (why.empty()) continue;
    lost_(why);
    return;
  }
}

/// Refreshes the lock. Returns a line when it is another run's now, else nothing.
std::string RunLock::taken_by() {
  std::optional<std::string> now;
  attempt([&] { refresh(fd_, path_); });
  attempt([&] { now = io::read_if_there(path_); });
  if (!now || now->empty() || *now == text_) return {};  // another run's lock appears with its content
  const auto owner = owner_from(*now);
  return fmt::format("{} is another run's now ({}): this one ends, so that the two do not mix", dir_,
                     owner ? in_words(*owner) : "its lock says nothing");
}

/// Calls `part`. Storage that fails does not end the run: the next beat asks again.
void RunLock::attempt(const std::function<void()>& part) {
  try {
    part();
  } catch (const Error& e) {
    if (!std::exchange(warned_, true))
      log::warn("the lock of this run: {}; the run goes on, and looks again each {} s", e.what(),
                timing_.beat.count() / 1000);
  }
}

}  // namespace weft::job
