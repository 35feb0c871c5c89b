#include "data/file_names.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "unit/data/text_files.hpp"

namespace weft::data {
namespace {

using test::expect_error;
using test::TemporaryDirectory;
using test::write_file;

using Names = std::vector<std::string>;

TEST(FileNames, PatternsStandForWhatMatchesInTheOrderOfBytes) {
  const TemporaryDirectory dir;
  for (const char* name : {"b.bin", "a.bin", "a10.bin", "a2.bin", "B.bin", "c.txt", ".a.bin"})
    write_file(dir / name, "x");
  std::filesystem::create_directory(dir / "more");
  write_file(dir / "more/a.bin", "x");
  EXPECT_EQ(matching_paths({dir / "*.bin"}),
            (Names{dir / "B.bin", dir / "a.bin", dir / "a10.bin", dir / "a2.bin", dir / "b.bin"}));
  EXPECT_EQ(matching_paths({dir / "a?.bin"}), (Names{dir / "a2.bin"}));
  EXPECT_EQ(matching_paths({dir / "*/a.bin"}), (Names{dir / "more/a.bin"}));
  // Other names stay where they are, whatever is there.
  EXPECT_EQ(matching_paths({dir / "none.bin", dir / "?.txt", dir / "a.bin", dir / "[a].bin"}),
            (Names{dir / "none.bin", dir / "c.txt", dir / "a.bin", dir / "[a].bin"}));
  EXPECT_EQ(matching_paths({}), Names{});
}

TEST(FileNames, APatternThatNothingMatchesIsRefused) {
  const TemporaryDirectory dir;
  const auto refuses = [](const std::string& pattern, const std::string& why) {
    expect_error([&] { matching_paths({pattern}); }, {"no file matches " + pattern + " (" + why});
  };
  refuses(dir / "*.bin",
          "none of this name); check the pattern, or make token files with `weft data tokenize`");
  refuses(dir / "none/*.bin", "none of this name); ");
  refuses("none/such*.bin",
          "none of this name, looked for from " + std::filesystem::current_path().string() + "); ");
}

}  // namespace
}  // namespace weft::data
