// Manifests that lie, under a checksum that is right: anyone can compute it.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "ckpt/manifest.hpp"

namespace weft::ckpt::test {
namespace {

std::string stored_text() {
  std::ifstream file(std::string(WEFT_SOURCE_DIR) + "/tests/unit/ckpt/format_1/manifest.json");
  return (std::ostringstream() << file.rdbuf()).str();
}

std::string with_checksum(std::string text) {
  const std::size_t at = text.find(':') + 2;
  text.replace(at, 16, 16, '0');
  return text.replace(at, 16, fmt::format("{:016x}", hash_text(text)));
}

/// What is said of the stored manifest with `from` replaced.
std::string said(const std::string& from, const std::string& to) {
  std::string text = stored_text();
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return "no " + from;
  text.replace(at, from.size(), to);
  try {
    detail::manifest_from_text(with_checksum(text), "m.json");
  } catch (const Error& e) {
    return e.code() == ExitCode::bad_checkpoint ? e.what() : "another exit code";
  }
  return "nothing";
}

TEST(Manifest, IsPrintedAsItWasRead) {
  const std::string text = stored_text();
  EXPECT_EQ(detail::to_text(detail::manifest_from_text(text, "m.json")), text);
  Manifest empty;
  empty.slab_bytes = 8;
  const std::string printed = detail::to_text(empty);
  EXPECT_EQ(detail::to_text(detail::manifest_from_text(printed, "m.json")), printed);
}

TEST(Manifest, NumbersAreCountsWithinRange) {
  const std::string begin = "m.json cannot be read (";
  EXPECT_EQ(said("\"step\":7", "\"step\":-7"),
            begin + "-7 stands where an integer from 0 to 72057594037927936 is expected)");
  EXPECT_EQ(said("\"step\":7", "\"step\":1e300"),
            begin + "1e+300 stands where an integer from 0 to 72057594037927936 is expected)");
  EXPECT_EQ(said("\"world\":2", "\"world\":4294967297"),
            begin + "4294967297 stands where an integer from 0 to 2147483647 is expected)");
  EXPECT_EQ(said("\"step\":7", "\"step\":[\"[\\\"\"]"),
            begin + "array stands where an integer from 0 to 72057594037927936 is expected)");
  EXPECT_EQ(said("\"step\":7", "\"step\":" + std::string(100000, '[') + std::string(100000, ']')),
            begin + "it nests too deeply)");
  EXPECT_EQ(said("\"0ad6f6b121c15625\"", "\"0xd6f6b121c15625\""),
            begin + "'0xd6f6b121c15625' is no checksum)");
  EXPECT_EQ(said("\"0ad6f6b121c15625\"", "\"word\""), begin + "'word' is no checksum)");
}

TEST(Manifest, SizesFitEachOther) {
  const std::string slices =
      "m.json cannot be read (its slices contradict themselves, or the sizes of files)";
  EXPECT_EQ(
      said("\"f32\",0,1024,", "\"f32\",9223372036854774784,1024,"),
      "m.json cannot be read (9223372036854774784 stands where an integer from 0 to 72057594037927936 is "
      "expected)");
  EXPECT_EQ(said("\"f32\",0,1024,", "\"f32\",627,1024,"), slices);            // past the unit's end
  EXPECT_EQ(said("\"f32\",0,1024,", "\"f32\",0,1025,"), slices);              // a slab without checksum
  EXPECT_EQ(said("[\"master\",0,", "[\"master\",5,"), slices);                // no such unit
  EXPECT_EQ(said("\"bytes\":74380", "\"bytes\":1000"), slices);               // too small for its slices
  EXPECT_EQ(said("\"bytes\":74380", "\"bytes\":72057594037927936"), slices);  // more than all may have
  EXPECT_EQ(said("\"elements\":1650", "\"elements\":72057594037927936"),
            slices);                                                       // more than files have bytes
  EXPECT_EQ(said("\"shard-00000.h5\"", "\"../shard-00000.h5\""), slices);  // of another directory
  EXPECT_EQ(said("\"shape\":[50,33]", "\"shape\":[50,34]"),
            "m.json cannot be read (parameter embed.weight leaves its unit)");
  EXPECT_EQ(said("\"shape\":[50,33]", "\"shape\":[4294967296,4294967296]"),
            "m.json cannot be read (parameter embed.weight leaves its unit)");
  EXPECT_EQ(said("\"shape\":[50,33]", "\"shape\":[1,1,1,1,1]"),
            "m.json cannot be read (a parameter has more than 4 extents)");
}

TEST(Manifest, NamesStayOnOneLine) {
  EXPECT_EQ(said("\"fsdp\"", "\"fs\\u000adp\""),
            "m.json cannot be read (a name has control characters: fs\\ndp)");
  EXPECT_EQ(said("[\"master\",0,", "[\"mas\\u000ater\",0,"),
            "m.json cannot be read (unknown state 'mas\\nter' in a checkpoint)");
}

}  // namespace
}  // namespace weft::ckpt::test
