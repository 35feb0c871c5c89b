// Tests that one run has a run directory: who is refused, and whose lock is not in the way.
#include "job/run_lock.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "job/run_directory.hpp"
#include "job/run_owner.hpp"
#include "support/file_mode.hpp"
#include "support/temporary_directory.hpp"
#include "unit/job/lock_directory.hpp"

namespace weft::job {
namespace {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

void not_lost(const std::string& why) {
  ADD_FAILURE() << why;
}

class RunLockTest : public LockDirectory {
 protected:
  void expect_refused(const std::string& text) const {
    try {
      const RunLock second(dir_.path(), not_lost, quick);
      ADD_FAILURE() << "it was not refused";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_input);
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  }
  /// Expects nothing but the lock or, if it is not locked, nothing at all.
  void expect_tidy(bool locked) const {
    for (const auto& entry : fs::directory_iterator(dir_.path()))
      EXPECT_EQ(entry.path().string(), lock()) << "a leftover";
    EXPECT_EQ(fs::exists(lock()), locked);
  }
  /// Runs `child` in a process, whose exit status is what it returns.
  template <class Child>
  pid_t in_child(Child child) const {
    const pid_t pid = ::fork();
    if (pid == 0) std::_Exit(child());
    return pid;
  }
  /// The number of a process that was killed while it held the lock. Who calls it has to wait for it.
  pid_t killed_owner() const {
    const pid_t pid = in_child([&] {
      const RunLock held(dir_.path(), not_lost);
      ::raise(SIGKILL);
      return 0;
    });
    siginfo_t how{};
    ::waitid(P_PID, static_cast<id_t>(pid), &how, WEXITED | WNOWAIT);
    return pid;
  }
};

TEST_F(RunLockTest, NamesItsOwnerAndGoesWithIt) {
  {
    const RunLock first(dir_.path(), not_lost);
    EXPECT_EQ(first.note(), "");
    expect_tidy(true);
    const auto owner = owner_from(test::read_file(lock()));
    ASSERT_TRUE(owner);
    EXPECT_EQ(owner->pid, ::getpid());
    EXPECT_TRUE(is_of_this_kernel(*owner) && is_running(*owner));
    expect_refused("another run writes here (" + in_words(*owner));
    expect_tidy(true);
  }
  expect_tidy(false);
  const RunLock again(dir_.path(), not_lost);
}

/// Who takes a dead run over has to open its lock for writing. The umask says which users may.
TEST_F(RunLockTest, HasTheModeThatTheUmaskLeaves) {
  for (const mode_t mask : test::umasks) {
    const test::Umask umask(mask);
    const RunLock held(dir_.path(), not_lost);
    EXPECT_EQ(test::mode_of(lock()), 0666 & ~mask) << "umask " << mask;
  }
}

/// Its parent may not have asked yet how it ended, and in some containers nobody ever does.
TEST_F(RunLockTest, OfAKilledProcessIsTakenOverAtOnce) {
  for (const bool asked : {true, false}) {
    SCOPED_TRACE(asked);
    const pid_t child = killed_owner();
    if (asked) ::waitpid(child, nullptr, 0);
    expect_tidy(true);
    const auto start = std::chrono::steady_clock::now();
    const RunLock next(dir_.path(), not_lost);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_NE(next.note().find(fmt::format("process {} on ", child)), std::string::npos) << next.note();
    expect_tidy(true);
    if (!asked) ::waitpid(child, nullptr, 0);
  }
}

/// A start that looks at a dead run's lock holds the kernel's lock on it meanwhile.
TEST_F(RunLockTest, OfADeadRunThatAnotherStartLooksAtNamesThatStart) {
  const pid_t child = killed_owner();
  ::waitpid(child, nullptr, 0);
  const int other = ::open(lock().c_str(), O_RDWR | O_CLOEXEC);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(other, F_OFD_SETLK, &whole), 0);
  expect_refused(fmt::format("another start is looking at the lock of a dead run (process {} on ", child));
  ::close(other);
  expect_tidy(true);
}

/// The kernel's lock stays with a run that was stopped, however long it is silent.
TEST_F(RunLockTest, OfAnotherHostThatIsHeldIsARunThatWritesHere) {
  const pid_t child = in_child([&] {
    const RunLock held(dir_.path(), not_lost);
    ::raise(SIGSTOP);
    return 0;
  });
  ASSERT_EQ(::waitpid(child, nullptr, WUNTRACED), child);
  put_foreign_lock();
  expect_refused("another run writes here (process ");
  make_old();
  expect_refused("another run writes here (process ");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  expect_tidy(true);
}

/// Containers on one host have one boot, but each has process numbers of its own.
TEST(RunOwnerTest, OfAnotherContainerIsNotOfThisKernel) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  const std::string numbers = fs::read_symlink("/proc/self/ns/pid").string();
  RunOwner owner = this_process();
  EXPECT_EQ(owner.kernel, boot + " " + numbers);
  EXPECT_TRUE(is_of_this_kernel(owner));
  for (const std::string& other : {boot, boot + " pid:[1]", "another " + numbers, std::string()}) {
    owner.kernel = other;
    EXPECT_FALSE(is_of_this_kernel(owner)) << other;
  }
}

TEST(RunOwnerTest, HasALineThoughANameIsNotUtf8) {
  RunOwner owner = this_process();
  owner.host = "caf\xe9";
  owner.job = "7\xff";
  const auto read = owner_from(to_text(owner));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->host, "caf\xef\xbf\xbd");
  EXPECT_EQ(read->job, "7\xef\xbf\xbd");
  EXPECT_EQ(read->pid, owner.pid);
  EXPECT_TRUE(is_of_this_kernel(*read) && is_running(*read));
}

TEST_F(RunLockTest, OfAnotherHostCountsWhileItIsRefreshed) {
  put_foreign_lock();
  std::atomic<bool> stop{false};
  std::thread owner([&] {
    for (; !stop; std::this_thread::sleep_for(milliseconds(20)))
      ::utimensat(AT_FDCWD, lock().c_str(), nullptr, 0);
  });
  expect_refused("on far, ");
  expect_refused("; if it is dead, remove " + lock());
  stop = true;
  owner.join();
  expect_tidy(true);
}

TEST_F(RunLockTest, OfAnotherHostThatIsSilentIsTakenOver) {
  for (const bool old : {true, false}) {
    SCOPED_TRACE(old);
    put_foreign_lock();
    if (old) make_old();
    const auto start = std::chrono::steady_clock::now();
    const RunLock next(dir_.path(), not_lost, quick);
    const auto waited = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(waited < milliseconds(800), old);
    EXPECT_NE(next.note().find("on far"), std::string::npos) << next.note();
    expect_tidy(true);
  }
}

TEST_F(RunLockTest, ThatIsEmptyIsSilent) {
  std::ofstream(lock()).close();
  make_old();
  const RunLock next(dir_.path(), not_lost, quick);
  EXPECT_NE(next.note().find("says nothing"), std::string::npos) << next.note();
}

TEST_F(RunLockTest, IsRefreshed) {
  const RunLock held(dir_.path(), not_lost, quick);
  make_old();
  const auto old = fs::last_write_time(lock());
  for (int i = 0; i < 200 && fs::last_write_time(lock()) == old; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_GT(fs::last_write_time(lock()) - old, std::chrono::minutes(4));
}

TEST_F(RunLockTest, ThatBecomesAnotherRunsIsNoticed) {
  std::atomic<bool> lost{false};
  {
    const RunLock first(
        dir_.path(), [&](const std::string& why) { lost = why.find("on far") != std::string::npos; }, quick);
    fs::remove(lock());
    std::this_thread::sleep_for(milliseconds(60));
    EXPECT_FALSE(lost) << "a file that is gone is nobody's";
    put_foreign_lock();
    for (int i = 0; i < 200 && !lost; ++i) std::this_thread::sleep_for(milliseconds(10));
    EXPECT_TRUE(lost);
  }
  expect_tidy(true);  // the lock of the other one stays
}

/// Several starters find a dead run's lock at the same moment, and one of them gets it.
TEST_F(RunLockTest, OneOfManyTakesADeadLockOver) {
  for (int round = 0; round < 10; ++round) {
    put_foreign_lock();
    make_old();
    std::array<int, 2> gate{}, tried{}, done{};
    ASSERT_EQ(::pipe(gate.data()) + ::pipe(tried.data()) + ::pipe(done.data()), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i)
      children.push_back(in_child([&] {
        char byte = 0;
        ::close(gate[1]);
        ::close(done[1]);
        if (::read(gate[0], &byte, 1) != 0) return 3;  // all start when the gate is closed
        try {
          const RunLock mine(dir_.path(), not_lost, quick);
          return ::write(tried[1], "+", 1) == 1 && ::read(done[0], &byte, 1) == 0 ? 0 : 3;
        } catch (const Error&) {
          return ::write(tried[1], "-", 1) == 1 ? 1 : 3;
        }
      }));
    ::close(gate[1]);
    char byte = 0;
    for (std::size_t i = 0; i < children.size(); ++i) ASSERT_EQ(::read(tried[0], &byte, 1), 1);
    ::close(done[1]);  // whoever holds it held it until all had tried
    int holders = 0;
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
      holders += WEXITSTATUS(status) == 0;
    }
    for (const int fd : {gate[0], tried[0], tried[1], done[0]}) ::close(fd);
    EXPECT_EQ(holders, 1);
    expect_tidy(false);
  }
}

TEST_F(RunLockTest, ADirectoryAppearsWithDeckAndLock) {
  const std::string dir = dir_ / "runs/new";
  {
    RunDirectory first(dir, not_lost);
    RunDirectory second(dir + "/", not_lost);
    EXPECT_FALSE(fs::exists(dir_ / "runs"));
    first.write("[run]\n");
    EXPECT_EQ(test::read_file(dir + "/deck.toml"), "[run]\n");
    EXPECT_TRUE(fs::exists(dir + "/lock"));
    EXPECT_THROW(second.write("[other]\n"), Error);
    EXPECT_THROW(RunDirectory(dir, not_lost), Error);
    EXPECT_EQ(test::read_file(dir + "/deck.toml"), "[run]\n");
  }
  EXPECT_FALSE(fs::exists(dir + "/lock"));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_ / "runs"), {}), 1) << "a leftover";
  RunDirectory again(dir, not_lost);
  again.write("[again]\n");
  EXPECT_EQ(test::read_file(dir + "/deck.toml"), "[again]\n");
}

}  // namespace
}  // namespace weft::job
