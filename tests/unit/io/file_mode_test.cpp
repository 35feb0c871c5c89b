// Tests who may read and write the files that Weft makes: whom the user's umask lets.
#include "support/file_mode.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "io/append_file.hpp"
#include "io/atomic_file.hpp"
#include "io/file.hpp"
#include "support/temporary_directory.hpp"

namespace weft::io {
namespace {

/// Expects a file that `make` makes at a path to have the mode that each umask leaves of 0666.
void expect_modes(const std::function<void(const std::string& path)>& make) {
  const test::TemporaryDirectory dir;
  for (const mode_t mask : test::umasks) {
    SCOPED_TRACE(testing::Message() << "umask " << std::oct << mask);
    {
      const test::Umask umask(mask);
      make(dir / "file");
    }
    EXPECT_EQ(test::mode_of(dir / "file"), 0666 & ~mask);
    std::filesystem::remove(dir / "file");
  }
}

TEST(FileMode, OfAFileIsWhatTheUmaskLeaves) {
  expect_modes([](const std::string& path) { const File made(path, File::Open::create); });
}

TEST(FileMode, OfAnAppendFileIsWhatTheUmaskLeaves) {
  expect_modes([](const std::string& path) { const AppendFile made(path); });
}

TEST(FileMode, OfAnAtomicFileIsWhatTheUmaskLeaves) {
  expect_modes([](const std::string& path) { AtomicFile(path, Named::by_weft).commit(Sync::no); });
}

/// A user may have locked others out of a file that Weft writes anew.
TEST(FileMode, OfAFileThatWasThereStays) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "file";
  { const File made(path, File::Open::create); }
  std::filesystem::permissions(path,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  { const File emptied(path, File::Open::create); }
  { const AppendFile continued(path); }
  EXPECT_EQ(test::mode_of(path), 0600U);
}

}  // namespace
}  // namespace weft::io
