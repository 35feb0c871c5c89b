#include <gtest/gtest.h>

#include <fstream>

#include "base/hash.hpp"
#include "ckpt/list.hpp"
#include "ckpt/slices_file.hpp"
#include "ckpt/verify.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void flip_bit(const std::string& path, std::size_t byte, int bit = 3) {
  std::string bytes = read_file(path);
  bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit));
  write_file(path, bytes);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    SaveOptions options;
    options.slab_bytes = 1024;
    options.alignment = 512;
    ASSERT_TRUE(save_with(2, dir.path(), 1, 1, options).front().ok);
    ASSERT_TRUE(save_with(2, dir.path(), 2, 2, options).front().ok);
    checkpoint = dir.path() + "/step-00000002";
  }
  std::string load_error(int ranks = 1) {
    return error_of([&] { loads_as(checkpoint, ranks, 2); });
  }
  TemporaryDirectory dir;
  std::string checkpoint;
};

TEST_F(Damage, AFlippedBitInTheDataIsNamed) {
  const std::string shard = checkpoint + "/shard-00001.h5";
  const auto values = filled_state(sample_units(), 1, 2, 2);
  const StateSlice& s = values.slices[7];  // the slice of layers.0.ffn, exp_avg, rank 1
  const std::string needle(reinterpret_cast<const char*>(s.data) + 2000, 64);
  const auto at = read_file(shard).find(needle);
  ASSERT_NE(at, std::string::npos);
  flip_bit(shard, at);
  const auto message = load_error();
  EXPECT_TRUE(contains(message, "step-00000002/shard-00001.h5") &&
              contains(message, "exp_avg of unit layers.0.ffn"))
      << message;
  const auto elements = "[" + std::to_string(s.begin + 256) + ", " + std::to_string(s.begin + 512) + ")";
  EXPECT_TRUE(contains(message, elements)) << message;
  EXPECT_EQ(verify(checkpoint).size(), 1U);
  // A slice that doesn't overlap the slab loads.
  RankState first = empty_state(sample_units(), 0, 6);
  EXPECT_NO_THROW(load(checkpoint, sample_units(), first.slices));
}

/// verify() finds every damage; a load may pass over those that are in no element.
TEST_F(Damage, EveryFlippedBitOfAShardIsFound) {
  const std::string shard = checkpoint + "/shard-00000.h5";
  const std::string whole = read_file(shard);
  std::size_t found = 0;
  for (std::size_t byte = 0; byte < whole.size(); byte += byte < 4096 ? 11 : 211) {
    write_file(shard, whole);
    flip_bit(shard, byte, static_cast<int>(byte % 8));
    bool detected = false;
    bool same = false;
    try {
      same = loads_as(checkpoint, 1, 2);
    } catch (const std::exception& e) {
      detected = true;
      EXPECT_TRUE(contains(e.what(), "shard-00000.h5")) << e.what();
    }
    found += detected;
    EXPECT_TRUE(detected || same) << "byte " << byte << " was loaded wrongly";
    const auto problems = verify(checkpoint);
    ASSERT_EQ(problems.size(), 1U) << "byte " << byte;
    EXPECT_TRUE(contains(problems[0], "shard-00000.h5 is damaged")) << problems[0];
  }
  EXPECT_GT(found, whole.size() / 211 / 2);
}

TEST_F(Damage, AFlippedBitInTheHeaderIsNamed) {
  const std::string shard = checkpoint + "/shard-00000.h5";
  const std::string whole = read_file(shard);
  // Bytes of signature, version, sizes, addresses, and checksum.
  for (const std::size_t byte : {0, 5, 9, 20, 44}) {
    write_file(shard, whole);
    flip_bit(shard, byte);
    const auto problems = verify(checkpoint);
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_TRUE(contains(problems[0], "shard-00000.h5 is damaged (checksum mismatch in HDF5's headers"))
        << problems[0];
    EXPECT_TRUE(loads_as(checkpoint, 1, 2)) << "the loader goes by the offsets in slices.jsonl";
  }
}

TEST_F(Damage, ABitBetweenTheDatasetsIsNamed) {
  const std::string shard = checkpoint + "/shard-00000.h5";
  std::string hole;
  detail::for_each_shard(read_manifest(checkpoint), [&](const Shard& s) {
    if (s.file != "shard-00000.h5") return;
    std::string used(static_cast<std::size_t>(s.bytes), ' ');
    const auto use = [&](std::int64_t offset, std::int64_t bytes) {
      used.replace(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes),
                   static_cast<std::size_t>(bytes), 'x');
    };
    for (const HeaderPart& p : s.header) use(p.offset, p.bytes);
    for (const ShardSlice& slice : s.slices) use(slice.offset, slice.bytes());
    hole = used;
  });
  ASSERT_TRUE(contains(hole, " "));
  flip_bit(shard, hole.find(' '));
  const auto problems = verify(checkpoint);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_TRUE(contains(problems[0], "between the datasets are not 0")) << problems[0];
}

TEST_F(Damage, AnyFlippedBitInTheDescriptionsIsNamed) {
  const std::string slices = checkpoint + "/" + slices_name;
  const std::string whole = read_file(slices);
  for (std::size_t byte = 0; byte < whole.size(); byte += 37) {
    write_file(slices, whole);
    flip_bit(slices, byte, static_cast<int>(byte % 8));
    const auto message = load_error();
    EXPECT_TRUE(contains(message, "step-00000002/slices.jsonl is damaged (its checksum does not match)"))
        << message;
    EXPECT_EQ(verify(checkpoint).size(), 1U);
  }
}

TEST_F(Damage, AnyFlippedBitInTheManifestIsNamedAndAnOlderCheckpointIsFound) {
  const std::string manifest = checkpoint + "/" + manifest_name;
  const std::string whole = read_file(manifest);
  for (std::size_t byte = 0; byte < whole.size(); byte += 13) {
    write_file(manifest, whole);
    flip_bit(manifest, byte, static_cast<int>(byte % 8));
    const auto message = error_of([&] { read_manifest(checkpoint); });
    EXPECT_TRUE(contains(message, "step-00000002/manifest.json is damaged")) << message;
  }
  EXPECT_EQ(find_latest(dir.path()), dir.path() + "/step-00000001");
  EXPECT_TRUE(contains(list(dir.path()), "manifest.json is damaged"));
}

TEST_F(Damage, TruncationIsNamedAndAnOlderCheckpointIsFound) {
  for (const char* name : {"shard-00001.h5", "slices.jsonl", "manifest.json"}) {
    const std::string path = checkpoint + "/" + name;
    const std::string whole = read_file(path);
    for (const std::size_t length : {std::size_t{0}, std::size_t{30}, whole.size() / 2, whole.size() - 1}) {
      fs::resize_file(path, length);
      const auto message = load_error();
      EXPECT_TRUE(contains(message, name) && (contains(message, "truncated") || contains(message, "damaged")))
          << message;
      EXPECT_EQ(find_latest(dir.path()), dir.path() + "/step-00000001");
      EXPECT_FALSE(verify(checkpoint).empty());
      write_file(path, whole);
    }
  }
  EXPECT_TRUE(loads_as(checkpoint, 3, 2));
}

TEST_F(Damage, BytesBehindTheEndAreFound) {
  for (const char* name : {"shard-00001.h5", "slices.jsonl", "index.h5", "manifest.json"}) {
    const std::string path = checkpoint + "/" + name;
    const std::string whole = read_file(path);
    write_file(path, whole + '\0');
    EXPECT_EQ(verify(checkpoint).size(), 1U) << name;
    write_file(path, whole);
  }
  EXPECT_TRUE(verify(checkpoint).empty());
}

TEST_F(Damage, AMissingShardIsNamedAndAnOlderCheckpointIsFound) {
  fs::remove(checkpoint + "/shard-00001.h5");
  const auto message = load_error();
  EXPECT_TRUE(contains(message, "step-00000002/shard-00001.h5 is missing")) << message;
  EXPECT_EQ(find_latest(dir.path()), dir.path() + "/step-00000001");
}

TEST_F(Damage, AShardOfAnotherCheckpointIsFound) {
  fs::copy_file(dir.path() + "/step-00000001/shard-00000.h5", checkpoint + "/shard-00000.h5",
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(contains(load_error(), "checksum mismatch in master of unit embed"));
}

TEST_F(Damage, ACheckpointUnderTheNameOfAnotherStepIsFound) {
  fs::remove_all(checkpoint);
  fs::copy(dir.path() + "/step-00000001", checkpoint);
  EXPECT_TRUE(contains(load_error(), "step-00000002 is the checkpoint of step 1"));
  EXPECT_EQ(verify(checkpoint).size(), 1U);
  EXPECT_EQ(find_latest(dir.path()), dir.path() + "/step-00000001");
  fs::rename(checkpoint, dir.path() + "/best");
  checkpoint = dir.path() + "/best";
  EXPECT_TRUE(loads_as(checkpoint, 1, 1)) << "names that are none of a step are free";
}

TEST_F(Damage, TheIndexIsVerified) {
  flip_bit(checkpoint + "/" + index_name, 1000);
  ASSERT_EQ(verify(checkpoint).size(), 1U);
  EXPECT_TRUE(contains(verify(checkpoint).front(), "index.h5 is damaged"));
  EXPECT_TRUE(loads_as(checkpoint, 2, 2)) << "the loader goes by the manifest";
}

TEST_F(Damage, WhatIsNotACheckpoint) {
  EXPECT_TRUE(contains(error_of([&] { read_manifest(dir.path()); }), "is not a checkpoint"));
  EXPECT_TRUE(contains(error_of([&] { read_manifest("/nowhere"); }), "is not a checkpoint"));
  EXPECT_EQ(find_latest("/nowhere"), std::nullopt);
  EXPECT_TRUE(contains(list("/nowhere"), "no checkpoints in /nowhere"));
}

TEST_F(Damage, AManifestThatIsTooLongIsNotRead) {
  const std::string manifest = checkpoint + "/" + manifest_name;
  const std::int64_t most = std::int64_t{64} << 20;
  fs::resize_file(manifest, most + 1);
  const auto message = error_of([&] { read_manifest(checkpoint); });
  EXPECT_TRUE(
      contains(message, fmt::format("is damaged ({} bytes, at most {} are expected)", most + 1, most)))
      << message;
}

TEST_F(Damage, WhatNoShardDescribesIsMissing) {
  // The manifest of a checkpoint of format 1 has the descriptions of its shards, so that one can be taken
  // out.
  const std::string old = dir.path() + "/format_1", path = old + "/" + manifest_name;
  fs::copy(WEFT_SOURCE_DIR "/tests/unit/ckpt/format_1", old);
  ASSERT_TRUE(verify(old).empty());
  std::string text = read_file(path);
  const std::size_t slice = text.find("[\"exp_avg\",1,"), next = text.find("[\"exp_avg_sq\",1,");
  ASSERT_LT(slice, next);
  write_file(path, with_checksum(text.erase(slice, next - slice)));
  const auto problems = verify(old);
  EXPECT_TRUE(std::any_of(problems.begin(), problems.end(), [](const std::string& problem) {
    return contains(problem, "do not cover exp_avg of unit");
  })) << ::testing::PrintToString(problems);
}

TEST_F(Damage, ANewerFormatIsNamed) {
  std::string text = read_file(checkpoint + "/" + manifest_name);
  const std::string version = "\"version\":" + std::to_string(format_version);
  text.replace(text.find(version), version.size(), "\"version\":" + std::to_string(format_version + 1));
  text = with_checksum(text);
  write_file(checkpoint + "/" + manifest_name, text);
  const auto message = error_of([&] { read_manifest(checkpoint); });
  EXPECT_TRUE(contains(message, "newer format (4; this Weft reads up to 3)")) << message;
  // It is no damage, so no older checkpoint is taken instead, and no save removes it.
  EXPECT_THROW(find_checkpoints(dir.path()), io::Unreadable);
  SaveOptions options;
  options.keep = 1;
  ASSERT_TRUE(save_with(1, dir.path(), 100, 100, options).front().ok);
  EXPECT_EQ(read_file(checkpoint + "/" + manifest_name), text);
}

}  // namespace
}  // namespace weft::ckpt::test
