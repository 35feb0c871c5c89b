#include "io/new_directory.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/check.hpp"
#include "io/small_file.hpp"
#include "support/temporary_directory.hpp"

namespace weft::io {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::TemporaryDirectory;

TEST(NewDirectory, AppearsWithAllThatIsInIt) {
  const TemporaryDirectory dir;
  {
    NewDirectory made(dir / "above/new", dir / "above/new.tmp");
    replace_file(made.file("a"), "text");
    EXPECT_FALSE(fs::exists(dir / "above/new"));
    ASSERT_TRUE(made.publish());
    made.sync();
  }
  EXPECT_EQ(read_file(dir / "above/new/a"), "text");
  EXPECT_FALSE(fs::exists(dir / "above/new.tmp"));
}

TEST(NewDirectory, LeavesNothingWithoutItsName) {
  const TemporaryDirectory dir;
  {
    const NewDirectory made(dir / "new", dir / "new.tmp");
    replace_file(made.file("a"), "text");
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(NewDirectory, ANameThatIsTakenStays) {
  const TemporaryDirectory dir;
  fs::create_directories(dir / "directory/inside");
  replace_file(dir / "file", "old");
  for (const char* name : {"directory", "file"}) {
    NewDirectory made(dir / name, dir / "new.tmp");
    EXPECT_FALSE(made.publish()) << name;
  }
  EXPECT_TRUE(fs::exists(dir / "directory/inside"));
  EXPECT_EQ(read_file(dir / "file"), "old");
  EXPECT_FALSE(fs::exists(dir / "new.tmp"));
}

}  // namespace
}  // namespace weft::io
