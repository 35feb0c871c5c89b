#include "io/file.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "support/temporary_directory.hpp"

namespace weft::io {
namespace {

using weft::test::TemporaryDirectory;

std::string noise(std::size_t bytes) {
  std::mt19937_64 random(bytes);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

/// Tests on a disk, and in memory, which may have no transfers without the cache.
class AvoidCache : public ::testing::TestWithParam<const char*> {};

/// Begins, ends and lengths are on the borders of blocks and beside them, shorter and longer than one
/// transfer.
TEST_P(AvoidCache, MovesTheSameBytes) {
  const TemporaryDirectory dir(GetParam());
  const std::string path = dir.path() + "/file";
  const std::string whole = noise((std::size_t{21} << 20) + 5);
  const std::vector<std::size_t> cuts{0,       1,       4096,       8191,       300'000,
                                      562'144, 2 << 20, 11'000'000, 11'000'100, whole.size()};
  {
    File out(path, File::Open::create);
    out.resize(static_cast<std::int64_t>(whole.size()));
    out.avoid_cache();
    // Backwards, because no part may touch another part's blocks.
    for (std::size_t i = cuts.size() - 1; i > 0; --i)
      out.write_at(whole.data() + cuts[i - 1], cuts[i] - cuts[i - 1], static_cast<std::int64_t>(cuts[i - 1]));
    out.sync();
    out.close();
  }
  EXPECT_TRUE(read_text(path) == whole);
  File in(path, File::Open::read);
  in.avoid_cache();
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::string part(whole.size() - cuts[i], '\0');
    in.read_at(part.data(), part.size(), static_cast<std::int64_t>(cuts[i]));
    EXPECT_TRUE(part == whole.substr(cuts[i])) << "from " << cuts[i];
  }
}

TEST_P(AvoidCache, SaysWhereAFileEnds) {
  const TemporaryDirectory dir(GetParam());
  const std::string path = dir.path() + "/file";
  write_text_durably(path, noise(1'000'000));
  File in(path, File::Open::read);
  in.avoid_cache();
  std::string text(1'000'001, '\0');
  try {
    in.read_at(text.data(), text.size(), 0);
    FAIL() << "read beyond the end";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("is truncated (it ends at byte 1000000"), std::string::npos)
        << e.what();
  }
}

/// Without this test, those above might all have gone through the cache.
TEST(DirectIo, MovesWholeBlocksWhereTheFileSystemCan) {
  constexpr std::size_t blocks = std::size_t{9} << 20;
  const TemporaryDirectory dir(".");
  const std::string path = dir.path() + "/file";
  write_text_durably(path, std::string(blocks, 'x'));
  const auto out = DirectIo::open(path, DirectIo::For::writing);
  if (!out) GTEST_SKIP() << "no direct I/O here";
  const std::string other = noise(blocks);
  EXPECT_EQ(out->write(other.data(), blocks, 0), blocks);
  EXPECT_TRUE(read_text(path) == other);
  const auto in = DirectIo::open(path, DirectIo::For::reading);
  ASSERT_TRUE(in);
  std::string read(blocks, '\0');
  EXPECT_EQ(in->read(read.data(), blocks, 0), blocks);
  EXPECT_TRUE(read == other);
}

TEST(File, TellsAnErrorOfTheStorageFromAFileThatIsNotThere) {
  const TemporaryDirectory dir(".");
  const std::string path = dir.path() + "/file";
  write_text_durably(path, "text");
  EXPECT_THROW(read_text(dir.path()), Unreadable) << "a directory cannot be read";
  EXPECT_EQ(file_bytes(path), 4);
  EXPECT_EQ(file_bytes(dir.path()), std::nullopt);
  const std::string too_long(300, 'x');
  EXPECT_THROW(file_bytes(dir.path() + "/" + too_long), Unreadable);
  for (const std::string& missing : {dir.path() + "/other", path + "/below"}) {
    EXPECT_EQ(file_bytes(missing), std::nullopt);
    try {
      read_text(missing);
      ADD_FAILURE() << missing;
    } catch (const Unreadable& e) {
      ADD_FAILURE() << e.what();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_checkpoint);
    }
  }
}

TEST(File, WhatCannotBeWrittenIsTheMachines) {
  try {
    write_text_durably("/nowhere/file", "text");
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::environment) << e.what();
    EXPECT_STREQ(e.what(), "cannot create /nowhere/file (No such file or directory)");
  }
}

INSTANTIATE_TEST_SUITE_P(On, AvoidCache, ::testing::Values(".", "/dev/shm"),
                         [](const auto& info) { return std::string(info.index == 0 ? "disk" : "memory"); });

/// A file system without blocks, such as ramfs, does not say how much is free. A full one has blocks.
TEST(File, FreeBytesAreThoseThatTheFileSystemTells) {
  EXPECT_EQ(free_bytes_of(1000, 3, 4096), 3 * 4096);
  EXPECT_EQ(free_bytes_of(1000, 0, 4096), 0);
  EXPECT_EQ(free_bytes_of(0, 0, 4096), INT64_MAX);
  EXPECT_EQ(free_bytes_of(UINT64_MAX, std::uint64_t{1} << 62, 1 << 20), INT64_MAX);
  EXPECT_EQ(free_bytes_of(UINT64_MAX, UINT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(free_bytes_of(UINT64_MAX, INT64_MAX, 1), INT64_MAX);
  EXPECT_GT(free_bytes("."), 0);
}

TEST(File, ADirectoryThatCannotBeSyncedIsNoLoss) {
  EXPECT_THROW(sync_directory("/proc"), Error);
  EXPECT_FALSE(sync_directory_if_permitted("/proc"));
  EXPECT_NO_THROW(sync_name("/proc/self"));
}

}  // namespace
}  // namespace weft::io
