// Tests what a save must not touch, and what must not keep it from saving.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "ckpt/directory.hpp"
#include "ckpt/list.hpp"
#include "ckpt/load.hpp"
#include "ckpt/publish.hpp"
#include "ckpt/verify.hpp"
#include "io/file.hpp"
#include "unit/ckpt/sample_state.hpp"

namespace weft::ckpt::test {
namespace {

namespace fs = std::filesystem;

/// The state is made while the save is under way, as in a background save.
TEST(CheckpointKeeps, TheSlicesAreReadOnceTheyAreMade) {
  TemporaryDirectory dir;
  const auto units = sample_units();
  const RankState filled = filled_state(units, 0, 1, 5);
  RankState state = empty_state(units, 0, 1);
  SaveOptions options;
  options.await_slices = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (std::size_t i = 0; i < filled.memory.size(); ++i)
      std::ranges::copy(filled.memory[i], state.memory[i].begin());
  };
  Save under_way(dir.path(), sample_run(1), units, state.slices, single_rank(), options);
  while (!under_way.advance(WaitForEnd::no)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(under_way.report().ok) << under_way.report().reason;
  EXPECT_TRUE(loads_as(dir.path() + "/step-00000001", 1, 5));
}

/// What could not be made is not the state, whatever the memory holds.
TEST(CheckpointKeeps, SlicesThatCouldNotBeMadeAreNotSaved) {
  TemporaryDirectory dir;
  const auto units = sample_units();
  const RankState state = filled_state(units, 0, 1, 5);
  SaveOptions options;
  options.await_slices = [] { throw Error(ExitCode::environment, "the device does not answer"); };
  const auto report = save(dir.path(), sample_run(1), units, state.slices, single_rank(), options);
  EXPECT_FALSE(report.ok);
  EXPECT_NE(report.reason.find("the device does not answer"), std::string::npos) << report.reason;
  EXPECT_TRUE(names_in(dir.path()).empty());
}

/// Somebody else holds the leftover: the root of a mounted file system can be neither removed nor renamed.
TEST(CheckpointKeeps, LeftoversThatCannotBeRemovedAreInNobodysWay) {
  TemporaryDirectory dir;
  const std::string leftover = dir.path() + "/step-00000002.tmp";
  fs::create_directories(leftover);
  const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                       ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       ::mount("tmpfs", leftover.c_str(), "tmpfs", 0, "size=64k") == 0;
  if (!mounted) GTEST_SKIP() << "cannot mount: " << std::strerror(errno) << " (it needs root)";
  SaveOptions options;
  options.keep = 1;
  for (const int step : {1, 2, 3}) {  // the second step wants the leftover's name
    const auto report = save_with(2, dir.path(), step, step, options).front();
    EXPECT_TRUE(report.ok) << report.reason;
    EXPECT_NE(report.reason.find("cannot remove " + leftover + " (Device or resource busy)"),
              std::string::npos)
        << report.reason;
    EXPECT_TRUE(loads_as(*find_latest(dir.path()), 1, step));
  }
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000002.tmp", "step-00000003", "latest"}));
  ::umount2(leftover.c_str(), MNT_DETACH);
  EXPECT_EQ(save_with(1, dir.path(), 4, 4, options).front().reason, "");
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000004", "latest"}));
}

TEST(CheckpointKeeps, WhatIsDamagedStandsBesideWhatTakesItsName) {
  TemporaryDirectory dir;
  SaveOptions options;
  options.keep = 1;
  for (const char* damaged : {"step-00000001.damaged", "step-00000001.damaged-2"}) {
    ASSERT_TRUE(save_with(1, dir.path(), 1, 1, options).front().ok);
    fs::resize_file(dir.path() + "/step-00000001/shard-00000.h5", 77);
    const auto report = save_with(1, dir.path(), 1, 2, options).front();
    EXPECT_TRUE(report.ok) << report.reason;
    EXPECT_NE(report.reason.find(std::string("is now ") + damaged), std::string::npos) << report.reason;
    EXPECT_TRUE(loads_as(dir.path() + "/step-00000001", 1, 2));
    EXPECT_EQ(fs::file_size(dir.path() + "/" + damaged + "/shard-00000.h5"), 77U);
  }
  ASSERT_TRUE(save_with(1, dir.path(), 9, 9, options).front().ok);
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000001.damaged", "step-00000001.damaged-2",
                                                         "step-00000009", "latest"}));
  EXPECT_NE(list(dir.path()).find("step-00000001.damaged"), std::string::npos);
}

/// What storage does not let us read is neither a missing checkpoint nor a damaged one. A link to itself is
/// refused with ELOOP, for root as well.
TEST(CheckpointKeeps, WhatCannotBeReadIsLeftAlone) {
  TemporaryDirectory dir;
  SaveOptions options;
  options.keep = 1;
  ASSERT_TRUE(save_with(1, dir.path(), 1, 1, options).front().ok);
  fs::create_symlink("step-00000005", dir.path() + "/step-00000005");
  EXPECT_THROW(find_checkpoints(dir.path()), io::Unreadable);
  const auto report = save_with(1, dir.path(), 2, 2, options).front();
  EXPECT_TRUE(report.ok);
  EXPECT_NE(report.reason.find("/step-00000005 is left alone: "), std::string::npos) << report.reason;
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000002", "step-00000005", "latest"}));
  EXPECT_NE(list(dir.path()).find("cannot be read: "), std::string::npos) << list(dir.path());
  // A directory that cannot be listed is not empty, and no save goes there.
  fs::create_symlink("loop", dir.path() + "/loop");
  EXPECT_THROW(find_checkpoints(dir.path() + "/loop"), Error);
  EXPECT_FALSE(save_with(1, dir.path() + "/loop", 3, 3, options).front().ok);
}

/// A copy of a run by `cp -rL` has a directory there, and some file systems have no symbolic links.
TEST(CheckpointKeeps, ALatestThatCannotBeMovedFillsNoDisk) {
  TemporaryDirectory dir;
  SaveOptions options;
  options.keep = 1;
  fs::create_directories(dir.path() + "/latest/below");
  for (const std::int64_t step : {1, 2, 3}) {
    const auto report = save_with(1, dir.path(), step, step, options).front();
    EXPECT_TRUE(report.ok) << report.reason;
    EXPECT_NE(report.reason.find("/latest (Is a directory)"), std::string::npos) << report.reason;
    EXPECT_EQ(find_latest(dir.path()), dir.path() + "/step-0000000" + std::to_string(step));
  }
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000003", "latest"}));
}

/// The place of a checkpoint is needed, but nobody knows whether it is damaged.
TEST(CheckpointKeeps, WhatCannotBeReadStandsBesideWhatTakesItsName) {
  TemporaryDirectory dir;
  fs::create_symlink("step-00000005", dir.path() + "/step-00000005");
  const auto report = save_with(1, dir.path(), 5, 5).front();
  EXPECT_TRUE(report.ok) << report.reason;
  EXPECT_EQ(report.reason.find("is left alone"), std::string::npos) << report.reason;
  EXPECT_NE(report.reason.find("/step-00000005 is now step-00000005.unreadable ("), std::string::npos)
      << report.reason;
  EXPECT_TRUE(loads_as(dir.path() + "/step-00000005", 1, 5));
  EXPECT_TRUE(fs::is_symlink(dir.path() + "/step-00000005.unreadable"));
  EXPECT_EQ(find_latest(dir.path()), dir.path() + "/step-00000005");
}

/// The link leads to a file system that is not mounted: its checkpoints are not gone.
TEST(CheckpointKeeps, ALinkToNothingIsNoEmptyDirectory) {
  TemporaryDirectory dir;
  fs::create_symlink("elsewhere", dir.path() + "/checkpoints");
  EXPECT_THROW(find_checkpoints(dir.path() + "/checkpoints"), io::Unreadable);
  EXPECT_THROW(holds_checkpoints(dir.path() + "/checkpoints"), io::Unreadable);
  EXPECT_TRUE(find_checkpoints(dir.path() + "/nowhere").checkpoints.empty());
}

/// Retention counts what is there after an interrupted replacement was settled, and damaged checkpoints stay.
TEST(CheckpointKeeps, RetentionAfterAnInterruptedReplacement) {
  TemporaryDirectory dir;
  SaveOptions options;
  options.keep = 3;
  for (const int step : {10, 20}) ASSERT_TRUE(save_with(1, dir.path(), step, step, options).front().ok);
  const std::string step = dir.path() + "/step-00000020", replaced = step + ".replaced";
  fs::copy(step, replaced, fs::copy_options::recursive);
  const auto report = save_with(1, dir.path(), 30, 30, options).front();
  EXPECT_EQ(report.reason, "");
  EXPECT_EQ(names_in(dir.path()),
            (std::set<std::string>{"step-00000010", "step-00000020", "step-00000030", "latest"}));
  fs::rename(step, replaced);
  fs::resize_file(replaced + "/shard-00000.h5", 77);
  ASSERT_TRUE(save_with(1, dir.path(), 20, 21, options).front().ok);
  EXPECT_TRUE(loads_as(step, 1, 21));
  EXPECT_EQ(fs::file_size(replaced + "/shard-00000.h5"), 77U);
  EXPECT_EQ(set_aside(replaced), step + ".damaged");
  EXPECT_NE(list(dir.path()).find("step-00000020.damaged"), std::string::npos);
}

/// Where two names cannot be exchanged, a process may end between the two renames of a replacement.
TEST(CheckpointKeeps, AnInterruptedReplacementLosesNothing) {
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(1, dir.path(), 1, 1).front().ok);
  const std::string step = dir.path() + "/step-00000001", replaced = step + ".replaced";
  fs::rename(step, replaced);
  EXPECT_EQ(find_latest(dir.path()), replaced);
  EXPECT_TRUE(loads_as(replaced, 2, 1));
  ASSERT_TRUE(save_with(1, dir.path(), 2, 2).front().ok);
  EXPECT_TRUE(loads_as(step, 1, 1)) << "it has its name back";
  // The newer one is there, so the older one is removed.
  fs::rename(step, replaced);
  ASSERT_TRUE(save_with(1, dir.path(), 1, 3).front().ok);
  EXPECT_TRUE(loads_as(step, 1, 3));
  fs::copy(step, replaced, fs::copy_options::recursive);
  ASSERT_TRUE(save_with(1, dir.path(), 4, 4).front().ok);
  EXPECT_FALSE(fs::exists(replaced));
}

/// A run that goes on from NAME.replaced would lose its way back when the next save renames it.
TEST(CheckpointKeeps, ANameIsGivenBackWhereItIsFree) {
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(1, dir.path(), 1, 1).front().ok);
  const std::string step = dir.path() + "/step-00000001", replaced = step + ".replaced";
  fs::rename(step, replaced);
  EXPECT_EQ(give_name_back(replaced), step);
  EXPECT_TRUE(loads_as(step, 1, 1));
  EXPECT_EQ(give_name_back(step), step);
  fs::copy(step, replaced, fs::copy_options::recursive);
  EXPECT_EQ(give_name_back(replaced), replaced) << "the name is taken";
  EXPECT_TRUE(loads_as(replaced, 1, 1));
}

/// Retention looks at the files of what it would remove: a checkpoint that lacks one is evidence.
TEST(CheckpointKeeps, WhatLacksAFileIsNotRemoved) {
  TemporaryDirectory dir;
  SaveOptions options;
  options.keep = 2;
  for (const int step : {1, 2}) ASSERT_TRUE(save_with(2, dir.path(), step, step, options).front().ok);
  fs::remove(dir.path() + "/step-00000001/shard-00001.h5");
  for (const int step : {3, 4}) EXPECT_EQ(save_with(2, dir.path(), step, step, options).front().reason, "");
  EXPECT_EQ(names_in(dir.path()),
            (std::set<std::string>{"step-00000001", "step-00000003", "step-00000004", "latest"}));
  EXPECT_NE(list(dir.path()).find("damaged: shard-00001.h5 of step-00000001 is missing"), std::string::npos)
      << list(dir.path());
}

/// Serial numbers grow whatever the clock says: the newest checkpoint is the one that was saved last.
TEST(CheckpointKeeps, TheLastSavedIsTheNewest) {
  TemporaryDirectory dir;
  std::int64_t before = 0;
  for (const int step : {5, 3, 4}) {
    ASSERT_TRUE(save_with(1, dir.path(), step, step).front().ok);
    const auto newest = detail::scan(dir.path(), detail::Look::at_manifest).front();
    EXPECT_EQ(newest.step, step);
    EXPECT_GT(newest.serial, before);
    before = newest.serial;
  }
}

}  // namespace
}  // namespace weft::ckpt::test
