#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "base/check.hpp"
#include "support/temporary_directory.hpp"

namespace weft::io {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::TemporaryDirectory;

void write(const std::string& path, std::string_view text, Named named, Sync sync = Sync::yes) {
  AtomicFile file(path, named);
  file.append(text.data(), text.size());
  file.commit(sync);
}

/// Expects a write to throw an Error with this code, and with `text` in its message.
void expect_refused(const std::string& path, Named named, ExitCode code, const std::string& text) {
  try {
    write(path, "text", named);
    FAIL() << "nothing was thrown, instead of: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const TemporaryDirectory dir;
  for (const Sync sync : {Sync::yes, Sync::no}) {
    fs::remove(dir / "a");
    {
      AtomicFile file(dir / "a", Named::by_user);
      file.append("new", 3);
      EXPECT_FALSE(fs::exists(dir / "a"));
      file.commit(sync);
    }
    EXPECT_EQ(read_file(dir / "a"), "new");
    { AtomicFile(dir / "a", Named::by_user).append("lost", 4); }
    EXPECT_EQ(read_file(dir / "a"), "new");
    EXPECT_FALSE(fs::exists(dir / "a.tmp"));
  }
}

TEST(AtomicFile, WhoNamedThePathDecidesWhoseMistakeItIs) {
  const TemporaryDirectory dir;
  const std::string problem = "cannot create " + (dir / "none/a") + " (No such file or directory); ";
  expect_refused(dir / "none/a", Named::by_user, ExitCode::bad_input, problem + "check the directory");
  expect_refused(dir / "none/a", Named::by_weft, ExitCode::environment, problem + "free some space");
}

/// Here the temporary file's name leads to a device that is full.
TEST(AtomicFile, AFullDiskIsTheMachines) {
  const TemporaryDirectory dir;
  write(dir / "a", "old", Named::by_user);
  for (const Named named : {Named::by_user, Named::by_weft}) {
    fs::create_symlink("/dev/full", dir / "a.tmp");
    expect_refused(dir / "a", named, ExitCode::environment,
                   "cannot write " + (dir / "a") + " (No space left on device); ");
    EXPECT_EQ(read_file(dir / "a"), "old");
    EXPECT_FALSE(fs::is_symlink(fs::symlink_status(dir / "a.tmp")));
  }
}

TEST(AtomicFile, WhatIsNoFileIsLeftAlone) {
  const TemporaryDirectory dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  fs::create_directory(dir / "directory");
  fs::create_symlink("/dev/null", dir / "null");
  for (const char* name : {"pipe", "null"})
    expect_refused(dir / name, Named::by_user, ExitCode::bad_input, "(it is a device or a pipe, not a file)");
  expect_refused(dir / "directory", Named::by_user, ExitCode::bad_input, "(Is a directory)");
  EXPECT_TRUE(fs::is_fifo(dir / "pipe"));
  EXPECT_TRUE(fs::is_symlink(fs::symlink_status(dir / "null")));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 3) << "a leftover";
}

TEST(AtomicFile, ProgramsThatAreStartedDoNotInheritIt) {
  const TemporaryDirectory dir;
  const AtomicFile file(dir / "a", Named::by_user);
  int seen = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    std::error_code closed;
    if (fs::read_symlink("/proc/self/fd/" + std::to_string(fd), closed) != dir / "a.tmp") continue;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    ++seen;
  }
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace weft::io
