#include "hf/files.hpp"

#include <gtest/gtest.h>

#include "unit/hf/model_dir.hpp"

namespace weft::hf {
namespace {

using test::error_of;

std::vector<Tensor> tensors_of(const std::vector<std::int64_t>& bytes) {
  std::vector<Tensor> tensors;
  for (const std::int64_t n : bytes)
    tensors.push_back({std::string("t").append(std::to_string(9 - tensors.size())), "U8", {n}, 0, n});
  return tensors;
}

TEST(ModelFiles, OneFileWhenAllFits) {
  const auto files = split_into_files(tensors_of({10, 20, 30}), 60);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].name, "model.safetensors");
  EXPECT_EQ(files[0].data_bytes, 60);
  EXPECT_EQ(files[0].tensors[0].name, "t7") << "sorted by name";
  EXPECT_EQ(files[0].tensors[0].begin, 0);
  EXPECT_EQ(files[0].tensors[1].begin, 30);
  EXPECT_EQ(files[0].tensors[2].begin, 50);
}

TEST(ModelFiles, FilesKeepTheLimitUnlessOneTensorHasMore) {
  const auto files = split_into_files(tensors_of({10, 20, 90, 5, 5}), 30);
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].name, "model-00001-of-00003.safetensors");
  EXPECT_EQ(files[0].data_bytes, 30);
  EXPECT_EQ(files[1].data_bytes, 90);
  EXPECT_EQ(files[2].data_bytes, 10);
  const auto index = parse_index(index_text(files), "index");
  EXPECT_EQ(index.size(), 5U);
  EXPECT_EQ(index.at("t9"), files[0].name);
  EXPECT_EQ(index.at("t7"), files[1].name);
  EXPECT_NE(index_text(files).find(R"("total_size": 130)"), std::string::npos);
}

TEST(ModelFiles, IndexNamesFilesOfItsOwnDirectory) {
  for (const char* name : {"../other.safetensors", "/etc/passwd", "a/b", "", ".", "..", "a\\u0000b"}) {
    const std::string text = std::string(R"({"weight_map":{"w":")") + name + R"("}})";
    EXPECT_NE(error_of([&] { parse_index(text, "index"); }).find("not in a file of this directory"),
              std::string::npos)
        << name;
  }
  for (const char* text : {"", "[]", "{", "{}", R"({"weight_map":[]})", R"({"weight_map":{"w":1}})"})
    EXPECT_TRUE(error_of([&] { parse_index(text, "index"); }).starts_with("index: ")) << text;
}

TEST(ModelFiles, AnIndexThatNestsDeeplyIsRefused) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string text = R"({"weight_map":{"w":)" + deep + "}}";
  EXPECT_EQ(error_of([&] { parse_index(text, "index"); }), "index: it nests too deeply");
}

}  // namespace
}  // namespace weft::hf
