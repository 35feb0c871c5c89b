// Tests manifests that lie under a checksum that is right: anyone can compute it.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/check.hpp"
#include "ckpt/manifest.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

std::string stored_text(int version) {
  std::ifstream file(fmt::format("{}/tests/unit/ckpt/format_{}/manifest.json", WEFT_SOURCE_DIR, version));
  return (std::ostringstream() << file.rdbuf()).str();
}

/// The message about the stored manifest with `from` replaced by `to`, without the advice that always
/// follows.
std::string said(int version, const std::string& from, const std::string& to) {
  std::string text = stored_text(version);
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return "no " + from;
  text.replace(at, from.size(), to);
  try {
    detail::manifest_from_text(with_checksum(text), "m.json");
  } catch (const Error& e) {
    const std::string_view said = e.what(), advice = "; restore the file, or resume from an older checkpoint";
    if (e.code() != ExitCode::bad_checkpoint || !said.ends_with(advice))
      return "another: " + std::string(said);
    return std::string(said.substr(0, said.size() - advice.size()));
  }
  return "nothing";
}

/// Expects the same message for manifests of all formats.
void expect_said(const std::string& from, const std::string& to, const std::string& expected) {
  for (const int version : {1, 2, 3}) EXPECT_EQ(said(version, from, to), expected) << "format " << version;
}

TEST(Manifest, IsPrintedAsItWasRead) {
  const std::string text = stored_text(3);
  EXPECT_EQ(detail::to_text(detail::manifest_from_text(text, "m.json")), text);
  Manifest empty;
  empty.slab_bytes = 8;
  empty.run.origin = "/elsewhere/step-00000005";
  empty.run.data = {{"data.train", "/data/train.bin", 123, 0xabc, "8:15:1700000000"}};
  const std::string printed = detail::to_text(empty);
  EXPECT_EQ(detail::to_text(detail::manifest_from_text(printed, "m.json")), printed);
}

TEST(Manifest, OfFormat1KnowsItsFilesAlone) {
  const Manifest one = detail::manifest_from_text(stored_text(1), "m.json");
  const Manifest two = detail::manifest_from_text(stored_text(2), "m.json");
  EXPECT_EQ(one.version, 1);
  EXPECT_EQ(two.version, 2);
  ASSERT_EQ(one.files.size(), 2U);
  EXPECT_EQ(one.files[1].name, "shard-00001.h5");
  EXPECT_EQ(one.files[1].bytes, 58612);
  EXPECT_EQ(one.state_bytes, two.state_bytes);
  EXPECT_EQ(one.run.deck, two.run.deck);
}

TEST(Manifest, NumbersAreCountsWithinRange) {
  const std::string begin = "m.json is damaged (";
  expect_said("\"step\":7", "\"step\":-7",
              begin + "-7 stands where an integer from 0 to 72057594037927936 is expected)");
  expect_said("\"step\":7", "\"step\":1e300",
              begin + "1e+300 stands where an integer from 0 to 72057594037927936 is expected)");
  expect_said("\"world\":2", "\"world\":4294967297",
              begin + "4294967297 stands where an integer from 0 to 2147483647 is expected)");
  // Brackets of a text do not count, not even behind a quote that is part of the text.
  expect_said("\"step\":7", "\"step\":[\"\\\"" + std::string(40, '[') + "\"]",
              begin + "array stands where an integer from 0 to 72057594037927936 is expected)");
  expect_said("\"step\":7", "\"step\":" + std::string(100000, '[') + std::string(100000, ']'),
              begin + "it nests too deeply)");
  EXPECT_EQ(said(1, "\"0ad6f6b121c15625\"", "\"0xd6f6b121c15625\""),
            begin + "'0xd6f6b121c15625' is no checksum)");
  EXPECT_EQ(said(1, "\"0ad6f6b121c15625\"", "\"word\""), begin + "'word' is no checksum)");
}

TEST(Manifest, SizesFitEachOther) {
  const std::string slices =
      "m.json is damaged (the slices of shard-00000.h5 contradict themselves, or the sizes of files)";
  const std::string units = "m.json is damaged (its units contradict the sizes of its files)";
  EXPECT_EQ(said(1, "\"f32\",0,1024,", "\"f32\",9223372036854774784,1024,"),
            "m.json is damaged (9223372036854774784 stands where an integer from 0 to 72057594037927936 is "
            "expected)");
  EXPECT_EQ(said(1, "\"f32\",0,1024,", "\"f32\",627,1024,"), slices);           // past the unit's end
  EXPECT_EQ(said(1, "\"f32\",0,1024,", "\"f32\",0,1025,"), slices);             // a slab without checksum
  EXPECT_EQ(said(1, "[\"master\",0,", "[\"master\",5,"), slices);               // no such unit
  EXPECT_EQ(said(1, "\"bytes\":74380", "\"bytes\":1000"), slices);              // too small for its slices
  EXPECT_EQ(said(1, "\"bytes\":74380", "\"bytes\":72057594037927936"), units);  // more than all may have
  EXPECT_EQ(said(2, "\"state_bytes\":1", "\"state_bytes\":999"), units);        // more than files have
  expect_said("\"elements\":1650", "\"elements\":72057594037927936", units);    // more than files have
  EXPECT_EQ(said(1, "\"shard-00000.h5\"", "\"../shard-00000.h5\""),             // of another directory
            "m.json is damaged (../shard-00000.h5 is no file's name)");
  EXPECT_EQ(said(2, "\"shard-00000.h5\"", "\"../shard-00000.h5\""),
            "m.json is damaged (../shard-00000.h5 is no file of a checkpoint)");
  expect_said("\"shape\":[50,33]", "\"shape\":[50,34]",
              "m.json is damaged (parameter embed.weight leaves its unit)");
  expect_said("\"shape\":[50,33]", "\"shape\":[4294967296,4294967296]",
              "m.json is damaged (parameter embed.weight leaves its unit)");
  expect_said("\"shape\":[50,33]", "\"shape\":[1,1,1,1,1]",
              "m.json is damaged (a parameter has more than 4 extents)");
}

TEST(Manifest, OnlyMatricesAreStoredTheOtherWay) {
  const Manifest three = detail::manifest_from_text(stored_text(3), "m.json");
  for (const Unit& unit : three.units)
    for (const Parameter& p : unit.parameters) EXPECT_EQ(p.in_first, p.path == "layers.0.ffn.w2") << p.path;
  EXPECT_EQ(said(3, "\"layers.0.ffn.w2\",\"shape\":[71,33]", "\"layers.0.ffn.w2\",\"shape\":[2343]"),
            "m.json is damaged (parameter layers.0.ffn.w2 is no matrix)");
}

TEST(Manifest, NamesStayOnOneLine) {
  expect_said("\"fsdp\"", "\"fs\\u000adp\"", "m.json is damaged (a name has control characters: fs\\ndp)");
  EXPECT_EQ(said(1, "[\"master\",0,", "[\"mas\\u000ater\",0,"),
            "m.json is damaged (unknown state 'mas\\nter' in a checkpoint)");
}

TEST(Manifest, Format1IsReadAsItWasWrittenAlone) {
  const std::string begin = "m.json is damaged (";
  EXPECT_EQ(said(1, "\n\"shards\":[", "\n\"shards\": ["), begin + "it ends too early)");
  EXPECT_EQ(said(1, "]}]\n}\n", "]},]\n}\n"), begin + "a shard is not described by an object)");
  EXPECT_EQ(said(1, "]}]\n}\n", "]}]\n}\n "), begin + "there is more behind its end)");
  EXPECT_EQ(said(1, "]}]\n}\n", "]}]\n}"), begin + "it ends too early)");
  EXPECT_EQ(said(1, "]]},{", "]]}{"), begin + "its shards are not a list)");
  const std::string key = said(1, "\"slices\"", "\"slides\"");
  EXPECT_TRUE(key.starts_with(begin) && key.find("'slices' not found") != std::string::npos) << key;
  const std::string text = said(1, "\"f32\",0,1024,", "\"f32\",,1024,");
  EXPECT_TRUE(text.starts_with(begin) && text.find("parse error") != std::string::npos) << text;
}

}  // namespace
}  // namespace weft::ckpt::test
