// Tests on a real file system of 1 MiB, which needs root; without root they are skipped.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/check.hpp"
#include "io/file.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

class FullDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      GTEST_SKIP() << "cannot mount a small tmpfs (" << std::strerror(errno) << ")";
    }
    mounted = true;
    ASSERT_TRUE(save_with(2, checkpoints(), 1, 1).front().ok);
  }
  void TearDown() override {
    if (mounted) ::umount2(dir.path().c_str(), MNT_DETACH);
  }
  std::string checkpoints() const { return dir.path() + "/checkpoints"; }
  /// Writes until about `kib` KiB are free.
  void fill(int kib) const {
    const auto free = fs::space(dir.path()).available;
    std::ofstream out(dir.path() + "/filler", std::ios::binary);
    const std::string chunk(1024, 'x');
    for (auto n = free / 1024; n > static_cast<std::uintmax_t>(kib) && out; --n)
      out.write(chunk.data(), 1024);
  }
  void expect_previous_is_whole() const {
    EXPECT_EQ(find_latest(checkpoints()), checkpoints() + "/step-00000001");
    EXPECT_TRUE(loads_as(checkpoints() + "/latest", 3, 1));
    for (const auto& entry : fs::directory_iterator(checkpoints()))
      EXPECT_NE(entry.path().extension(), ".tmp");
    fs::remove(dir.path() + "/filler");
    EXPECT_TRUE(save_with(2, checkpoints(), 2, 2).front().ok) << "the run goes on when there is space again";
    EXPECT_TRUE(loads_as(checkpoints() + "/latest", 3, 2));
  }
  TemporaryDirectory dir;
  bool mounted = false;
};

TEST_F(FullDisk, SpaceIsCheckedFirst) {
  fill(40);
  const auto reports = save_with(2, checkpoints(), 2, 2);
  for (const auto& report : reports) EXPECT_FALSE(report.ok);
  EXPECT_NE(reports[0].reason.find("not enough space"), std::string::npos) << reports[0].reason;
  expect_previous_is_whole();
}

TEST_F(FullDisk, AWriteThatFailsIsReportedByAllRanks) {
  // From nothing left for the header, over the first slabs, to only the manifest not fitting.
  int failed = 0;
  bool went_through = false;
  for (const int kib : {0, 4, 12, 60, 100, 130, 138, 142, 146, 150, 154, 160}) {
    SCOPED_TRACE(kib);
    const auto fill_after_check = [&](int rank, SaveOptions& options) {
      if (rank != 0) return;
      options.on_stage = [this, kib](const char* stage) {
        if (std::string(stage) == "prepared") fill(kib);
      };
    };
    const auto reports = save_with(2, checkpoints(), 2, 2, {}, fill_after_check);
    if (reports[0].ok) {
      EXPECT_GE(kib, 142);
      EXPECT_TRUE(loads_as(checkpoints() + "/latest", 3, 2));
      went_through = true;
      break;
    }
    ++failed;
    for (const auto& report : reports) EXPECT_FALSE(report.ok);
    EXPECT_NE(reports[0].reason.find("No space left on device"), std::string::npos) << reports[0].reason;
    EXPECT_EQ(find_latest(checkpoints()), checkpoints() + "/step-00000001");
    fs::remove(dir.path() + "/filler");
  }
  EXPECT_GE(failed, 7) << "with 138 KiB left, it still fails";
  if (!went_through) expect_previous_is_whole();
}

/// A transfer without the page cache that fails is tried again through it, and the error is that of the
/// second try.
TEST_F(FullDisk, ALargeWriteThatFailsSaysWhy) {
  io::File out(dir.path() + "/large", io::File::Open::create);
  out.avoid_cache();
  const std::string data(std::size_t{2} << 20, 'x');
  try {
    out.write_at(data.data(), data.size(), 0);
    FAIL() << "2 MiB on a disk of 1 MiB";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("No space left on device"), std::string::npos) << e.what();
  }
}

TEST(CheckpointPlace, ADirectoryThatCannotBeMadeIsReported) {
  const auto reports = save_with(2, "/proc/checkpoints", 1, 1);
  for (const auto& report : reports) EXPECT_FALSE(report.ok);
  EXPECT_NE(reports[0].reason.find("/proc/checkpoints"), std::string::npos) << reports[0].reason;
}

}  // namespace
}  // namespace weft::ckpt::test
