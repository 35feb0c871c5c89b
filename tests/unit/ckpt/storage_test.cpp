// Tests what is asked of storage, and what a save does where storage refuses. Calls are counted, or fail, in
// a process of their own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "faults/places.hpp"
#include "faults/trap.hpp"
#include "io/file.hpp"
#include "io/storage_wait.hpp"
#include "unit/ckpt/sample_state.hpp"

namespace weft::ckpt::test {
namespace {

/// What `child` returns in a process whose calls on files below `dir` get this answer.
int in_child(const std::string& dir, faults::Answer answer, const std::function<int()>& child) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    faults::watch_directories(dir.c_str());
    if (!faults::catch_system_calls(answer)) std::_Exit(255);
    std::_Exit(child());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

std::atomic<int> g_looks{0};

/// Counts looks at shards by their names.
long count_looks(const faults::SystemCall& call, faults::Arguments arguments) {
  faults::Text name;
  const bool looks = call.number == SYS_newfstatat || call.number == SYS_stat || call.number == SYS_statx;
  if (looks && faults::name_of_file(call, arguments, name) &&
      std::string_view(name.data()).find("/shard-") != std::string_view::npos)
    ++g_looks;
  return faults::call_kernel(call.number, arguments);
}

/// How often a start and a save look at shards where `kept` checkpoints of two ranks are kept.
int looks_with(int kept) {
  const TemporaryDirectory temporary;
  const std::string dir = temporary.path();
  SaveOptions options;
  options.keep = kept;
  for (int step = 1; step <= kept; ++step)
    EXPECT_TRUE(save_with(2, dir, step, step, options).front().ok) << step;
  return in_child(dir, count_looks, [&] {
    if (find_checkpoints(dir).checkpoints.size() != static_cast<std::size_t>(kept)) return 254;
    if (g_looks != 0) return 253;
    if (!find_latest(dir)) return 252;
    if (!save_with(2, dir, kept + 1, 1, options).front().reason.empty()) return 251;
    return g_looks.load();
  });
}

/// Looking at a file may take a millisecond, and thousands of ranks have as many in each checkpoint.
TEST(CheckpointStorage, IsAskedAsOftenForManyCheckpointsAsForFew) {
  const int looks = looks_with(2);
  EXPECT_GT(looks, 4) << "the newest, the new one and the removed one have two shards each";
  EXPECT_LT(looks, 60);
  EXPECT_EQ(looks_with(20), looks);
}

int g_error = 0;

/// The directory above that of the checkpoints cannot be opened.
long refuse_parent(const faults::SystemCall& call, faults::Arguments arguments) {
  faults::Text name;
  const bool opens = call.number == SYS_open || call.number == SYS_openat;
  if (opens && faults::name_of_file(call, arguments, name) && std::string_view(name.data()) == "./run")
    return -g_error;
  return faults::call_kernel(call.number, arguments);
}

/// Users may write in directories whose names they may not list. What is not ours to sync costs no save, but
/// storage that fails does.
TEST(CheckpointStorage, ADirectoryAboveThatMayNotBeReadCostsNoSave) {
  for (const int error : {EACCES, EIO}) {
    SCOPED_TRACE(error);
    const TemporaryDirectory temporary;
    const std::string dir = temporary.path(), checkpoints = dir + "/run/checkpoints";
    g_error = error;
    const int ended = in_child(dir, refuse_parent, [&] {
      const SaveReport report = save_with(1, checkpoints, 1, 1).front();
      if (report.ok) return report.reason.empty() ? 0 : 1;
      return report.reason.find("/run (Input/output error)") == std::string::npos ? 2 : 3;
    });
    EXPECT_EQ(ended, error == EACCES ? 0 : 3);
    EXPECT_EQ(fs::exists(checkpoints + "/step-00000001"), error == EACCES);
  }
}

/// What happens at a rename.
enum class Mishap : std::uint8_t { fails, fails_like_all_later, ends_the_process };

Mishap g_mishap{};
int g_rename_with_mishap = 0;  ///< counted from 1; 0: all go well
std::atomic<int> g_renames{0};

/// How a save ended that replaces a checkpoint.
enum class Replaced : std::uint8_t { yes, with_a_remark, no, process_ended };

/// Answers as a file system does that cannot exchange two names.
long exchange_nothing(const faults::SystemCall& call, faults::Arguments arguments) {
  if (call.number == SYS_renameat2) return -EINVAL;
  const int rename = call.number == SYS_rename ? ++g_renames : 0;
  const bool later = g_mishap == Mishap::fails_like_all_later && rename > g_rename_with_mishap;
  if (rename == 0 || g_rename_with_mishap == 0 || (rename != g_rename_with_mishap && !later))
    return faults::call_kernel(call.number, arguments);
  if (g_mishap == Mishap::ends_the_process)
    faults::call_kernel_with(SYS_exit_group, static_cast<int>(Replaced::process_ended));
  return -EIO;
}

/// Saves step 1, in a process that cannot exchange names.
Replaced replace_without_exchange(const std::string& dir, int salt) {
  const int ended = in_child(dir, exchange_nothing, [&] {
    const SaveReport report = save_with(1, dir, 1, salt).front();
    if (!report.ok) return static_cast<int>(Replaced::no);
    return static_cast<int>(report.reason.empty() ? Replaced::yes : Replaced::with_a_remark);
  });
  return static_cast<Replaced>(ended);
}

/// Such a save renames four times. Whatever happens at any of them, the earlier or the new checkpoint is
/// found whole, and the next save tidies up.
TEST(CheckpointStorage, WhereNamesCannotBeExchanged) {
  constexpr int none = 0, earlier_aside = 1, to_its_name = 2, latest = 3, earlier_to_removed = 4;
  const std::set<std::string> tidy{"step-00000001", "latest"};
  for (const Mishap mishap : {Mishap::fails, Mishap::fails_like_all_later, Mishap::ends_the_process})
    for (const int rename : {none, earlier_aside, to_its_name, latest, earlier_to_removed}) {
      SCOPED_TRACE(testing::Message() << "mishap " << static_cast<int>(mishap) << " at rename " << rename);
      const TemporaryDirectory temporary;
      const std::string dir = temporary.path(), name = dir + "/step-00000001";
      ASSERT_TRUE(save_with(1, dir, 1, 1).front().ok);
      g_mishap = mishap;
      g_rename_with_mishap = rename;
      const bool earlier_stays = rename == earlier_aside || rename == to_its_name;
      Replaced expected = earlier_stays ? Replaced::no : Replaced::with_a_remark;
      if (mishap == Mishap::ends_the_process) expected = Replaced::process_ended;
      if (rename == none) expected = Replaced::yes;
      EXPECT_EQ(replace_without_exchange(dir, 2), expected);
      const auto found = find_latest(dir);
      ASSERT_TRUE(found.has_value());
      EXPECT_TRUE(loads_as(*found, 1, earlier_stays ? 1 : 2)) << *found;
      const bool has_no_name = rename == to_its_name && mishap != Mishap::fails;
      EXPECT_EQ(*found, has_no_name ? name + ".replaced" : name);
      if (rename == none || (earlier_stays && mishap == Mishap::fails)) {
        EXPECT_EQ(names_in(dir), tidy);
      }
      g_rename_with_mishap = none;
      EXPECT_EQ(replace_without_exchange(dir, 3), Replaced::yes);
      EXPECT_EQ(names_in(dir), tidy);
      EXPECT_TRUE(loads_as(name, 1, 3));
    }
}

std::string g_watched;  ///< the directory whose files count
std::atomic<int> g_calls{0}, g_unnamed{0};

/// Counts the calls on files, and tells those of which a watchdog would not know. What asks storage holds
/// neither the allocator's lock nor that of the waits, so both can be used here.
long look_for_waits(const faults::SystemCall& call, faults::Arguments arguments) {
  faults::Text name;
  if (faults::name_of_file(call, arguments, name)) {
    ++g_calls;
    const auto wait = io::oldest_storage_wait();
    if (!wait || !wait->path.starts_with(g_watched)) {
      ++g_unnamed;
      const std::string line = std::string(call.name) + " of " + name.data() + " is not watched\n";
      faults::call_kernel_with(SYS_write, STDERR_FILENO, line.data(), line.size());
    }
  }
  return faults::call_kernel(call.number, arguments);
}

/// Writes and reads a file of so many bytes that the page cache is left out.
void use_large_file(const std::string& path) {
  std::vector<char> bytes(std::size_t{1} << 20);
  io::File out(path, io::File::Open::create);
  out.avoid_cache();
  out.write_at(bytes.data(), bytes.size(), 0);
  out.sync();
  out.close();
  io::File in(path, io::File::Open::read);
  in.avoid_cache();
  in.read_at(bytes.data(), bytes.size(), 0);
}

/// Whichever call does not come back, a watchdog has a file to name: in the first save, in those that tidy
/// up, replace and remove, at a start, and in a load.
TEST(CheckpointStorage, IsWatchedInEachCall) {
  for (const bool direct_io : {false, true}) {
    const TemporaryDirectory temporary;
    const std::string run = temporary.path() + "/run", dir = run + "/checkpoints";
    g_watched = temporary.path();
    SaveOptions options;
    options.keep = 2;
    options.direct_io = direct_io;
    const int ended = in_child(g_watched, look_for_waits, [&] {
      for (const int step : {1, 2, 3, 3}) {
        if (!save_with(1, dir, step, step, options).front().reason.empty()) return 254;
        const std::string left = dir + "/step-00000009.tmp/below";  // by a save that was killed
        const io::StorageWait of_test("make", left);
        fs::create_directories(left);
        std::ofstream(left + "/file") << "slices";
      }
      if (!find_latest(dir)) return 253;
      if (!loads_as(dir + "/step-00000003", 1, 3)) return 252;
      use_large_file(run + "/large");
      if (g_calls < 100) return 251;
      return std::min(g_unnamed.load(), 250);
    });
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(names_in(dir),
              (std::set<std::string>{"step-00000002", "step-00000003", "step-00000009.tmp", "latest"}));
  }
}

}  // namespace
}  // namespace weft::ckpt::test
