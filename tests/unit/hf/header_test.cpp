// Tests headers of safetensors files: whole ones, and everything that can be wrong with one.
#include <gtest/gtest.h>

#include <random>

#include "hf/safetensors.hpp"
#include "unit/hf/model_dir.hpp"

namespace weft::hf {
namespace {

using test::error_of;

/// The bytes of a file: length, header, data.
std::string file_of(const std::string& json, std::size_t data_bytes) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(json.size() >> (8 * i) & 255U);
  return length + json + std::string(data_bytes, 'x');
}
Header parse(const std::string& file) {
  return parse_header(file, file.size(), "a.safetensors");
}

constexpr const char* two_tensors =
    R"({"__metadata__":{"format":"pt","a":"b"},"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
    R"("n":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )";

TEST(SafetensorsHeader, TensorsComeByTheirPlace) {
  const Header header = parse(file_of(two_tensors, 16));
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[0].name, "n");
  EXPECT_TRUE(header.tensors[0].shape.empty());
  EXPECT_EQ(header.tensors[0].bytes, 4);
  EXPECT_EQ(header.tensors[1].name, "w");
  EXPECT_EQ(header.tensors[1].dtype, "BF16");
  EXPECT_EQ(header.tensors[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header.tensors[1].begin, 4);
  EXPECT_EQ(header.data_begin, static_cast<std::int64_t>(8 + std::string(two_tensors).size()));
}

TEST(SafetensorsHeader, NothingButTheHeaderIsNeeded) {
  const std::string file = file_of(two_tensors, 16);
  EXPECT_EQ(parse_header(file.substr(0, file.size() - 16), file.size()).tensors.size(), 2U);
  EXPECT_TRUE(parse(file_of("{}", 0)).tensors.empty());
}

TEST(SafetensorsHeader, WhatIsWrittenIsReadBack) {
  const std::vector<Tensor> tensors{
      {"a", "F32", {3}, 0, 12}, {"b \"q\" \n", "F16", {2, 0, 5}, 12, 0}, {"c", "BF16", {5, 1}, 12, 10}};
  const std::string text = header_text(tensors);
  EXPECT_EQ(text.size() % 8, 0U);
  EXPECT_EQ(text.substr(8, 37), R"({"__metadata__":{"format":"pt"},"a":{)");
  const Header header = parse_header(text, text.size() + 22);
  ASSERT_EQ(header.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(header.tensors[i].name, tensors[i].name);
    EXPECT_EQ(header.tensors[i].shape, tensors[i].shape);
    EXPECT_EQ(header.tensors[i].begin, tensors[i].begin);
    EXPECT_EQ(header.tensors[i].bytes, tensors[i].bytes);
  }
}

struct Bad {
  const char* json;
  std::size_t data_bytes;
  const char* message;
};

TEST(SafetensorsHeader, RefusesWhatIsNotTheFormat) {
  const std::vector<Bad> all{
      {R"(["w"])", 0, "does not begin with '{'"},
      {R"( {})", 0, "does not begin with '{'"},
      {"", 0, "does not begin with '{'"},
      {R"({"w":{"dtype":"F32")", 0, "not JSON (at byte"},
      {R"({} {})", 0, "not JSON"},
      {"{\"\xff\":{}}", 0, "not JSON"},
      {R"({"w":1})", 0, "a number where none belongs"},
      {R"({"w":[1]})", 0, "a list where none belongs"},
      {R"({"w":"F32"})", 0, "text where none belongs"},
      {R"({"w":null})", 0, "null"},
      {R"({"w":{"dtype":{}}})", 0, "an object where none belongs"},
      {R"({"w":{"dtype":[1]}})", 0, "\"dtype\" is a list"},
      {R"({"w":{"shape":[[1]]}})", 0, "a list where none belongs"},
      {R"({"w":{"shape":[true]}})", 0, "true or false"},
      {R"({"w":{"shape":"1"}})", 0, "\"shape\" is text"},
      {R"({"w":{"stride":[1]}})", 0, "\"stride\" is a list"},
      {R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "the number -1"},
      {R"({"w":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "the number 1.0"},
      {R"({"w":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4, "63 bits"},
      {R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4,
       "63 bits of bytes"},
      {R"({"w":{"dtype":"F32","shape":[1]}})", 4, "data_offsets is missing"},
      {R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", 4, "missing"},
      {R"({"w":{"shape":[1],"data_offsets":[0,4]}})", 4, "missing"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "not two numbers"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "not two numbers"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"data_offsets":[0,4]}})", 4, "there twice"},
      {R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "dtype is there twice"},
      {R"({"w":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", 4, "shape is there twice"},
      {R"({"w":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4, "dtype \"F33\" is not known"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "[4, 0] are not within"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "not within the file's 4 bytes"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "is 8 bytes, its data_offsets are 4"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{}})", 4, "\"w\": it is there twice"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"v":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5, "tensor \"v\": its data begins at 3, the one before ends at 4"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", 5, "begins at 1"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 6, "end at byte 4 of 6"},
      {R"({"__metadata__":{"format":1}})", 0, "a number where none belongs"},
      {R"({"__metadata__":{"format":{}}})", 0, "an object where none belongs"}};
  for (const Bad& bad : all) {
    const std::string message = error_of([&] { parse(file_of(bad.json, bad.data_bytes)); });
    EXPECT_TRUE(message.starts_with("a.safetensors: ")) << message;
    EXPECT_NE(message.find(bad.message), std::string::npos) << bad.json << "\n" << message;
  }
}

TEST(SafetensorsHeader, LengthsThatLie) {
  const std::string whole = file_of(two_tensors, 16);
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_FALSE(error_of([&] { parse(whole.substr(0, n)); }).empty());
  // These are refused by the length alone, before anything is allocated for it.
  for (const std::size_t byte : {4U, 5U, 7U}) {
    std::string file = whole;
    file[byte] = '\x7f';
    EXPECT_NE(error_of([&] { parse(file); }).find("a header of"), std::string::npos);
  }
  EXPECT_NE(error_of([&] { parse_header(whole.substr(0, 40), whole.size()); }).find("truncated"),
            std::string::npos);
}

/// Whatever the file holds, the result is an error of one line, or tensors that fill the data behind the
/// header.
TEST(SafetensorsHeader, DamagedBytesAreRefusedOrStillDescribeTheFile) {
  std::mt19937 random(1);
  const std::string whole = file_of(two_tensors, 16);
  int refused = 0, parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string file = whole;
    for (auto n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % (file.size() - 16);
      file[at] = random() % 2 == 0 ? static_cast<char>(random()) : whole[8 + random() % (whole.size() - 24)];
    }
    try {
      const Header header = parse(file);
      std::int64_t end = 0;
      for (const Tensor& t : header.tensors) {
        ASSERT_EQ(t.begin, end) << file;
        ASSERT_GE(t.bytes, 0) << file;
        end += t.bytes;
      }
      ASSERT_EQ(header.data_begin + end, static_cast<std::int64_t>(file.size())) << file;
      ++parsed;
    } catch (const Error& e) {
      const std::string message = e.what();
      ASSERT_TRUE(message.starts_with("a.safetensors: ")) << message;
      ASSERT_EQ(message.find('\n'), std::string::npos) << message;
      ++refused;
    }
  }
  // Most damage breaks the JSON or a number; what changes a name alone is still a header.
  EXPECT_GT(refused, 10000);
  EXPECT_GT(parsed, 100);
}

}  // namespace
}  // namespace weft::hf
