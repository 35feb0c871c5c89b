#include "io/small_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/check.hpp"
#include "support/temporary_directory.hpp"

namespace weft::io {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::TemporaryDirectory;

/// Expects the action to throw Error(environment) with `text` in its message.
template <class Action>
void expect_refused(Action&& action, const std::string& text) {
  try {
    action();
    FAIL() << "nothing was thrown, instead of: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::environment);
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

TEST(SmallFile, IsReadWhole) {
  const TemporaryDirectory dir;
  const std::string text(200'000, 'x');
  replace_file(dir / "a", text);
  EXPECT_EQ(read_if_there(dir / "a"), text);
}

TEST(SmallFile, OnlyWhatIsMissingIsNotThere) {
  const TemporaryDirectory dir;
  EXPECT_EQ(read_if_there(dir / "none"), std::nullopt);
  replace_file(dir / "file", "text");
  expect_refused([&] { read_if_there(dir / "file/none"); }, "file/none (Not a directory)");
  expect_refused([&] { read_if_there(dir.path()); }, "cannot read " + dir.path() + " (Is a directory)");
}

TEST(SmallFile, TakesAnothersPlaceOrLeavesIt) {
  const TemporaryDirectory dir;
  replace_file(dir / "a", "old");
  replace_file(dir / "a", "new");
  EXPECT_EQ(read_file(dir / "a"), "new");
  fs::create_directories(dir / "full/inside");
  expect_refused([&] { replace_file(dir / "full", "text"); }, "cannot write " + (dir / "full"));
  EXPECT_TRUE(fs::exists(dir / "full/inside"));
  EXPECT_FALSE(fs::exists(dir / "full.tmp"));
  expect_refused([&] { replace_file(dir / "none/a", "text"); }, "none/a (No such file or directory)");
}

TEST(Directories, AreMadeWithThoseAbove) {
  const TemporaryDirectory dir;
  make_directories(dir / "a/b/c");
  make_directories(dir / "a/b/c/");
  EXPECT_TRUE(fs::is_directory(dir / "a/b/c"));
  fs::create_directory_symlink("a/b", dir / "link");
  make_directories(dir / "link/d");
  EXPECT_TRUE(fs::is_directory(dir / "a/b/d"));
}

TEST(Directories, AFileIsNone) {
  const TemporaryDirectory dir;
  replace_file(dir / "a", "text");
  expect_refused([&] { make_directories(dir / "a/b"); },
                 "the directory " + (dir / "a") + " (Not a directory)");
  expect_refused([&] { make_directories(dir / "a"); }, "(Not a directory)");
}

}  // namespace
}  // namespace weft::io
