// Tests a run directory's lock on storage that answers with errors: then nothing is known about who holds it.
// Also tests it where a file system cannot take a name only if that is free (NFS).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>

#include "base/check.hpp"
#include "faults/places.hpp"
#include "faults/trap.hpp"
#include "job/run_lock.hpp"
#include "job/run_owner.hpp"
#include "support/temporary_directory.hpp"
#include "unit/job/lock_directory.hpp"

namespace weft::job {
namespace {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

/// Calls of this name, on files whose name has this end, fail from the `from`-th on.
struct Fault {
  std::string_view call, file;
  int from = 1;
  int renameat2_error = 0;  ///< renameat2 does nothing but tell this error, unless it is 0
  int link_error = 0;       ///< link tells this error, unless it is 0, although it has made the link
};

Fault g_fault;
std::atomic<bool> g_faulty{false};
std::atomic<int> g_calls{0};  ///< how many such calls came while g_faulty was set
std::atomic<int> g_looks{0};  ///< how many such calls there were, whether faulty or not

std::string_view name_of(const faults::SystemCall& call, const faults::Arguments& arguments) {
  const bool of_descriptor =
      call.number == SYS_newfstatat && faults::to_pointer<const char>(arguments[1])[0] == '\0';
  return of_descriptor ? "fstat" : call.name;
}

bool is_of_the_file(const faults::SystemCall& call, const faults::Arguments& arguments) {
  faults::Text name;
  if (call.number == SYS_utimensat) return true;  // futimens gives no path
  return faults::name_of_file(call, arguments, name) && std::string_view(name.data()).ends_with(g_fault.file);
}

long answer(const faults::SystemCall& call, faults::Arguments arguments) {
  const bool looks = name_of(call, arguments) == g_fault.call && is_of_the_file(call, arguments);
  if (looks) ++g_looks;
  const bool fails = looks && g_faulty && ++g_calls >= g_fault.from;
  if (fails) return -EIO;
  if (call.number == SYS_renameat2 && g_fault.renameat2_error != 0) return -g_fault.renameat2_error;
  const long result = faults::call_kernel(call.number, arguments);
  return call.number == SYS_link && result == 0 ? -g_fault.link_error : result;
}

class RunLockFaultsTest : public LockDirectory {
 protected:
  /// The exit status of a process that runs `child`, in which the fault waits for g_faulty.
  template <class Child>
  int status_of(const Fault& fault, Child child) const {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::alarm(20);
      g_fault = fault;
      const int err = ::open((dir_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
      if (::dup2(err, STDERR_FILENO) < 0) std::_Exit(90);
      faults::watch_directories(dir_.path().c_str());
      if (!faults::catch_system_calls(answer)) std::_Exit(91);
      std::_Exit(child());
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// The code with which a claim of the directory ends.
  int claim_here() const {
    try {
      const RunLock mine(
          dir_.path(), [](const std::string&) {}, quick);
      return 0;
    } catch (const Error& e) {
      std::fprintf(stderr, "%s\n", e.what());
      return static_cast<int>(e.code());
    }
  }
  /// The same in another process.
  int claim(const Fault& fault) const {
    return status_of(fault, [&] {
      g_faulty = true;
      return claim_here();
    });
  }
  /// Whether the directory has what the tests write there and, if it is locked, the lock.
  bool is_tidy(bool locked) const {
    for (const auto& entry : fs::directory_iterator(dir_.path()))
      if (entry.path() != dir_ / "err" && !(locked && entry.path() == lock())) return false;
    return fs::exists(lock()) == locked;
  }
};

TEST_F(RunLockFaultsTest, ABeatThatCannotLookGoesOn) {
  for (const std::string_view call : {"read", "openat", "utimensat"}) {
    SCOPED_TRACE(call);
    const int status = status_of({call, "/lock"}, [&] {
      std::atomic<bool> lost{false};
      const RunLock held(
          dir_.path(), [&](const std::string&) { lost = true; }, quick);
      g_faulty = true;
      while (g_calls < 5) std::this_thread::sleep_for(milliseconds(10));
      g_faulty = false;
      if (lost) return 1;
      put_foreign_lock();  // it is seen once the storage answers again
      while (!lost) std::this_thread::sleep_for(milliseconds(10));
      return 0;
    });
    const std::string err = test::read_file(dir_ / "err");
    EXPECT_EQ(status, 0) << err;
    const auto told = err.find("the lock of this run: cannot ");
    EXPECT_NE(told, std::string::npos) << err;
    EXPECT_EQ(err.find("the lock of this run", told + 1), std::string::npos) << "told twice: " << err;
    EXPECT_NE(err.find("(Input/output error)"), std::string::npos) << err;
    fs::remove(lock());
  }
}

TEST_F(RunLockFaultsTest, AClaimThatCannotLookTakesNothing) {
  for (const Fault& fault :
       {Fault{"read", "/lock"}, Fault{"fstat", "/lock"}, Fault{"fstat", "/lock", 2},
        Fault{"openat", "/lock", 3}, Fault{"newfstatat", "/lock"}, Fault{"utimensat", "/lock"}}) {
    SCOPED_TRACE(testing::Message() << fault.call << " " << fault.from);
    put_foreign_lock();
    const std::string before = test::read_file(lock());
    EXPECT_EQ(claim(fault), static_cast<int>(ExitCode::environment)) << test::read_file(dir_ / "err");
    EXPECT_NE(test::read_file(dir_ / "err").find("(Input/output error)"), std::string::npos);
    EXPECT_EQ(test::read_file(lock()), before);
  }
}

TEST_F(RunLockFaultsTest, ALockThatWasMovedAsideAndCannotBeReadIsPutBack) {
  for (const int renameat2_error : {0, EINVAL}) {
    SCOPED_TRACE(renameat2_error);
    put_foreign_lock();
    make_old();
    const std::string before = test::read_file(lock());
    EXPECT_EQ(claim({"read", ".old", 1, renameat2_error}), static_cast<int>(ExitCode::environment));
    EXPECT_EQ(test::read_file(lock()), before);
    EXPECT_EQ(claim({"rename", "/lock", 1, renameat2_error}), static_cast<int>(ExitCode::environment));
    EXPECT_EQ(test::read_file(lock()), before);
    EXPECT_TRUE(is_tidy(true));
  }
}

/// The lock gets its name by a link then. An answer that was lost on the way makes NFS ask its server again,
/// which says that the name is there already.
TEST_F(RunLockFaultsTest, ALinkTakesTheNameWhereARenameCannot) {
  for (const int renameat2_error : {EINVAL, ENOSYS})
    for (const int link_error : {0, EEXIST, EIO}) {
      SCOPED_TRACE(testing::Message() << renameat2_error << " " << link_error);
      const Fault nfs{"", "", 1, renameat2_error, link_error};
      const int second = status_of(nfs, [&] {
        const RunLock held(
            dir_.path(), [](const std::string&) {}, quick);
        if (test::read_file(lock()) != held.text()) return 92;
        if (!is_tidy(true)) return 93;
        const int code = claim_here();
        return is_tidy(true) ? code : 94;
      });
      EXPECT_EQ(second, static_cast<int>(ExitCode::bad_input)) << test::read_file(dir_ / "err");
      EXPECT_TRUE(is_tidy(false));
      put_foreign_lock();
      make_old();
      EXPECT_EQ(claim(nfs), 0) << test::read_file(dir_ / "err");
      EXPECT_TRUE(is_tidy(false));
    }
}

/// A damaged disk may leave a file without content, but another run's lock is never empty.
TEST_F(RunLockFaultsTest, AnEmptyLockIsNobodys) {
  const int status = status_of({"read", "/lock"}, [&] {
    std::atomic<bool> lost{false};
    const RunLock held(
        dir_.path(), [&](const std::string&) { lost = true; }, quick);
    fs::resize_file(lock(), 0);
    const int before = g_looks;
    while (g_looks < before + 4)
      std::this_thread::sleep_for(milliseconds(5));  // these are looks of beats that see it empty
    return lost ? 1 : 0;
  });
  EXPECT_EQ(status, 0);
}

/// A file system that has no lock to give at the moment may have one for the next start. That start gets it
/// on the file of a run that lives.
TEST_F(RunLockFaultsTest, AnOwnerThatGotNoKernelLockIsNotTakenForDead) {
  const int second = status_of({"fcntl", ""}, [&] {
    g_faulty = true;
    const RunLock held(
        dir_.path(), [](const std::string&) {}, quick);
    g_faulty = false;
    return g_calls == 0 ? 92 : claim_here();
  });
  EXPECT_EQ(second, static_cast<int>(ExitCode::bad_input)) << test::read_file(dir_ / "err");
}

}  // namespace
}  // namespace weft::job
