// Tests the descriptions of shards: their line of text, and lies in it.
#include "ckpt/shard.hpp"

#include <gtest/gtest.h>

#include "ckpt/coverage.hpp"
#include "ckpt/slices_file.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

constexpr std::string_view line =
    R"({"file":"shard-00000.h5","bytes":4096,"header":[[0,1024,"00000000000000ff"]],"slices":[)"
    R"(["master",0,"f32",0,100,1024,["0123456789abcdef"]],["exp_avg",1,"bf16",8,300,2048,["01","02"]]]})";

std::string good_line() {
  std::string text(line);
  text.replace(text.find("\"01\""), 4, "\"0000000000000001\"");
  return text.replace(text.find("\"02\""), 4, "\"0000000000000002\"");
}

Manifest manifest() {
  Manifest m;
  m.slab_bytes = 400;
  m.units = {Unit{"a", {}, 100}, Unit{"b", {}, 308}};
  m.files = {{"shard-00000.h5", 4096}};
  return m;
}

std::string said(const std::string& from, const std::string& to) {
  std::string text = good_line();
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return "no " + from;
  text.replace(at, from.size(), to);
  return error_of([&] { detail::check_shard(detail::shard_from_line(text), manifest(), 0); });
}

TEST(Shard, IsReadAsItWasPrinted) {
  const Shard shard = detail::shard_from_line(good_line());
  EXPECT_NO_THROW(detail::check_shard(shard, manifest(), 0));
  EXPECT_EQ(detail::to_line(shard), good_line());
  EXPECT_EQ(shard.slices[1].offset, 2048);
  EXPECT_EQ(shard.slices[1].checksums[1], 2U);
  EXPECT_EQ(shard.state_bytes(), 1000);
  EXPECT_EQ(detail::to_line(detail::shard_from_line(detail::to_line(Shard{}))), detail::to_line(Shard{}));
}

TEST(Shard, OtherTextIsRefusedWithItsPlace) {
  EXPECT_EQ(said("\"bytes\":4096", "\"bytes\": 4096"),
            "byte 33 of its description: a number of the right size is expected");
  EXPECT_EQ(said("4096,", "-1,"), "byte 33 of its description: a number of the right size is expected");
  EXPECT_EQ(said("4096,", "04096,"), "byte 33 of its description: a number of the right size is expected");
  EXPECT_EQ(said("4096,", "99999999999999999,"),
            "byte 33 of its description: a number of the right size is expected");
  EXPECT_EQ(said("shard-00000.h5\",", "shard\\u0041\","), "byte 14 of its description: '\"' is expected");
  EXPECT_EQ(said("00ff\"", "00FF\""), "byte 73 of its description: a checksum has 16 digits");
  EXPECT_EQ(said("00ff\"", "0ff\""), "byte 72 of its description: a checksum has 16 digits");
  EXPECT_EQ(said("master", "mister"), "unknown state 'mister' in a checkpoint");
  EXPECT_NE(said("]]]}", "]]]}}").find("more than a shard"), std::string::npos);
}

TEST(Shard, ItsPartsStandBesideEachOther) {
  const std::string lies = "the slices of shard-00000.h5 contradict themselves, or the sizes of files";
  EXPECT_EQ(said("0,100,1024", "0,100,1023"), lies);  // in the headers
  EXPECT_EQ(said("0,100,1024", "0,100,1649"), lies);  // in the next dataset
  EXPECT_EQ(said("8,300,2048", "8,300,3497"), lies);  // past the file's end
  EXPECT_EQ(said("8,300,2048", "9,300,2048"), lies);  // past the unit's end
  EXPECT_EQ(said("0,100,1024", "0,101,1024"), lies);  // a slab without checksum
  EXPECT_EQ(said("0,100,1024", "0,0,1024"), lies);    // nothing
  EXPECT_EQ(said("\"master\",0", "\"master\",2"), lies);
  EXPECT_EQ(said("shard-00000", "shard-00001"), "shard-00001.h5 does not describe file 0 of the manifest");
  EXPECT_EQ(said("4096,", "4097,"), "shard-00000.h5 does not describe file 0 of the manifest");
}

/// Each line is held against the manifest before it is passed on, and the first that lies is named.
TEST(Shard, LinesOfABlockAreCheckedOneByOne) {
  Manifest m = manifest();
  m.dir = "step-00000001";
  m.files.push_back({"shard-00001.h5", 4096});
  const std::string first = good_line() + '\n';
  std::string second = first;
  second.replace(second.find("shard-00000"), 11, "shard-00001");
  std::size_t taken = 0;
  const auto read = [&](const std::string& block) {
    taken = 0;
    std::size_t index = 0;
    detail::read_lines(block, m, index, [&](const Shard&) { ++taken; });
    return index;
  };
  EXPECT_EQ(read(first + second), 2U);
  EXPECT_EQ(taken, 2U);
  std::string lie = second;
  lie.replace(lie.find("8,300,2048"), 10, "8,300,3497");
  for (const std::string& block : {first + lie, first + first}) {
    const std::string message = error_of([&] { read(block); });
    EXPECT_NE(message.find("step-00000001/slices.jsonl is damaged (line 2: "), std::string::npos) << message;
    EXPECT_EQ(taken, 1U);
  }
}

TEST(Intervals, AreJoinedWhereTheyTouch) {
  detail::Intervals seen;
  EXPECT_TRUE(seen.empty());
  EXPECT_TRUE(seen.add(10, 20));
  EXPECT_TRUE(seen.add(30, 40));
  for (const auto& [begin, end] : {std::pair(5, 11), {19, 21}, {10, 20}, {12, 13}, {0, 50}, {10, 11}})
    EXPECT_FALSE(seen.add(begin, end)) << begin;
  EXPECT_EQ(seen.first_missing(10, 40), 20);
  EXPECT_TRUE(seen.add(20, 30));
  EXPECT_EQ(seen.first_missing(10, 40), 40);
  EXPECT_EQ(seen.first_missing(9, 40), 9);
  EXPECT_EQ(seen.first_missing(12, 45), 40);
  EXPECT_FALSE(seen.add(25, 26));
  EXPECT_TRUE(seen.add(0, 10));
  EXPECT_EQ(seen.first_missing(0, 40), 40);
}

}  // namespace
}  // namespace weft::ckpt::test
