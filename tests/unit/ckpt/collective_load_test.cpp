// Tests loading on several ranks: rank 0 alone reads the descriptions, and a failure leaves no rank behind.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <span>

#include "base/check.hpp"
#include "ckpt/stored_files.hpp"
#include "io/file.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

struct Loaded {
  bool same = false;
  std::string error;  ///< the rank's error; "quiet" where it has none of its own
};

std::vector<Loaded> load_with(int ranks, const std::string& checkpoint, int salt) {
  std::vector<Loaded> loaded(static_cast<std::size_t>(ranks));
  with_ranks(ranks, [&](const Hooks& hooks) {
    Loaded& mine = loaded[static_cast<std::size_t>(hooks.rank)];
    try {
      const Manifest manifest = read_manifest(checkpoint, hooks);
      RankState state = empty_state(sample_units(), hooks.rank, ranks);
      load(manifest, sample_units(), state.slices, hooks);
      mine.same = same_bytes(state, filled_state(sample_units(), hooks.rank, ranks, salt));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_checkpoint);
      mine.error = *e.what() == '\0' ? "quiet" : e.what();
    }
  });
  return loaded;
}

class CollectiveLoad : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    checkpoint = dir.path() + "/format_1";
    if (GetParam() == 1) {
      fs::copy(WEFT_SOURCE_DIR "/tests/unit/ckpt/format_1", checkpoint);
      return;
    }
    SaveOptions options;
    options.slab_bytes = 1024;
    const auto report = save_with(2, dir.path(), 7, 42, options).front();
    ASSERT_TRUE(report.ok) << report.reason;
    checkpoint = report.path;
  }
  void harm(const std::string& name) const {
    std::fstream file(checkpoint + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('\x55');
  }
  TemporaryDirectory dir;
  std::string checkpoint;
};

TEST_P(CollectiveLoad, FillsEveryRank) {
  for (const int ranks : {1, 2, 3})
    for (const Loaded& rank : load_with(ranks, checkpoint, 42)) EXPECT_TRUE(rank.same) << rank.error;
  EXPECT_FALSE(load_with(2, checkpoint, 41)[0].same) << "the comparison must be able to fail";
}

/// The last bytes of a shard are those of a slab that rank 1 alone asks for.
TEST_P(CollectiveLoad, ADamagedSlabEndsAllRanksAndOneSpeaks) {
  harm("shard-00001.h5");
  const auto loaded = load_with(3, checkpoint, 42);
  EXPECT_EQ(loaded[0].error, "quiet");
  EXPECT_EQ(loaded[2].error, "quiet");
  EXPECT_NE(loaded[1].error.find("shard-00001.h5 is damaged (checksum mismatch"), std::string::npos)
      << loaded[1].error;
}

TEST_P(CollectiveLoad, WhatRankZeroCannotReadAllRanksSay) {
  const std::string text = GetParam() == 1 ? "manifest.json" : "slices.jsonl";
  harm(text);
  for (const Loaded& rank : load_with(3, checkpoint, 42))
    EXPECT_NE(rank.error.find(text + " is damaged (its checksum does not match)"), std::string::npos)
        << rank.error;
  fs::remove(checkpoint + "/manifest.json");
  for (const Loaded& rank : load_with(3, checkpoint, 42))
    EXPECT_NE(rank.error.find("is not a checkpoint"), std::string::npos) << rank.error;
}

INSTANTIATE_TEST_SUITE_P(Format, CollectiveLoad, ::testing::Values(1, 2));

TEST(CollectiveLoad, ARankThatAsksForSomethingElseDoesNotLeaveAlone) {
  TemporaryDirectory dir;
  const auto report = save_with(2, dir.path(), 7, 42).front();
  std::vector<std::string> said(2);
  with_ranks(2, [&](const Hooks& hooks) {
    auto units = sample_units();
    if (hooks.rank == 1) units.pop_back();
    RankState state = empty_state(units, hooks.rank, 2);
    try {
      load(read_manifest(report.path, hooks), units, state.slices, hooks);
    } catch (const Error& e) {
      said[static_cast<std::size_t>(hooks.rank)] = *e.what() == '\0' ? "quiet" : e.what();
    }
  });
  EXPECT_EQ(said[0], "quiet");
  EXPECT_NE(said[1].find("another model"), std::string::npos) << said[1];
}

/// A run that still trains moves its `latest` at any moment, also between the first file that another program
/// reads and the second.
TEST(Load, ALinkIsFollowedOnce) {
  TemporaryDirectory dir;
  for (const int step : {1, 2}) ASSERT_TRUE(save_with(2, dir.path(), step, step).front().ok);
  const std::string latest = dir.path() + "/latest", best = dir.path() + "/best";
  const auto point_to = [](const std::string& link, const std::string& target) {
    fs::remove(link);
    fs::create_directory_symlink(target, link);
  };
  point_to(best, "./latest/");
  for (const std::string& named : {latest, latest + "/", latest + "/.", best}) {
    SCOPED_TRACE(named);
    point_to(latest, "step-00000001");
    const Manifest alone = read_manifest(named);
    EXPECT_TRUE(fs::equivalent(alone.dir, dir.path() + "/step-00000001"));
    point_to(latest, "step-00000002");
    RankState whole = empty_state(sample_units(), 0, 1);
    load(alone, sample_units(), whole.slices);
    EXPECT_TRUE(same_bytes(whole, filled_state(sample_units(), 0, 1, 1)));
    EXPECT_TRUE(loads_as(named, 1, 2)) << "it is followed again for another manifest";
    point_to(latest, dir.path() + "/step-00000001");
    with_ranks(2, [&](const Hooks& hooks) {
      const Manifest manifest = read_manifest(named, hooks);
      EXPECT_EQ(io::base_name(manifest.dir), "step-00000001");
      hooks.barrier();
      if (hooks.rank == 0) point_to(latest, "step-00000002");
      hooks.barrier();
      RankState mine = empty_state(sample_units(), hooks.rank, 2);
      load(manifest, sample_units(), mine.slices, hooks);
      EXPECT_TRUE(same_bytes(mine, filled_state(sample_units(), hooks.rank, 2, 1)));
    });
  }
  point_to(latest, "step-00000009");
  EXPECT_NE(error_of([&] { read_manifest(latest); }).find(latest + " is not a checkpoint"),
            std::string::npos);
}

/// Rank 0 has seen all files. What another rank does not see says nothing about the checkpoint.
TEST(Load, AFileThatWasSeenAMomentAgoIsNoDamage) {
  TemporaryDirectory dir;
  const auto report = save_with(2, dir.path(), 7, 42).front();
  ASSERT_TRUE(report.ok) << report.reason;
  const std::string kept = dir.path() + "/kept";
  for (const char* name : {"shard-00001.h5", "slices.jsonl"}) {
    const std::string file = report.path + "/" + name;
    fs::copy_file(file, kept, fs::copy_options::overwrite_existing);
    const auto harms = {std::pair("missing", std::function([&] { fs::remove(file); })),
                        std::pair("shorter", std::function([&] { fs::resize_file(file, 1000); })),
                        std::pair("longer", std::function([&] { fs::resize_file(file, 1 << 20); }))};
    for (const auto& [what, harm] : harms) {
      SCOPED_TRACE(testing::Message() << name << " " << what);
      Manifest manifest = read_manifest(report.path);
      EXPECT_EQ(look_at_files(manifest, single_rank()), "");
      harm();
      RankState state = empty_state(sample_units(), 0, 1);
      const auto is_unreadable = [&] {
        try {
          load(manifest, sample_units(), state.slices);
          ADD_FAILURE() << "no error";
        } catch (const io::Unreadable& e) {
          EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
          EXPECT_NE(std::string(e.what()).find(", though rank 0 has just seen all files"), std::string::npos)
              << e.what();
          return true;
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ExitCode::bad_checkpoint) << e.what();
        }
        return false;
      };
      EXPECT_TRUE(is_unreadable());
      EXPECT_NE(look_at_files(manifest, single_rank()).find(name), std::string::npos);
      EXPECT_FALSE(is_unreadable()) << "nobody has seen it whole";
      fs::copy_file(kept, file, fs::copy_options::overwrite_existing);
    }
  }
}

/// An older checkpoint is not taken in its place, and the line says what storage has answered.
TEST(Load, AManifestThatStorageDoesNotGiveIsNamed) {
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(1, dir.path(), 6, 42).front().ok);
  const std::string manifest = save_with(1, dir.path(), 7, 42).front().path + "/manifest.json";
  fs::remove(manifest);
  fs::create_symlink("manifest.json", manifest);
  try {
    find_latest(dir.path());
    ADD_FAILURE() << "no error";
  } catch (const io::Unreadable& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find(manifest), std::string::npos) << said;
    EXPECT_NE(said.find("Too many levels of symbolic links"), std::string::npos) << said;
  }
}

TEST(Load, GivesElementsOfSlicesWithoutMemoryInParts) {
  TemporaryDirectory dir;
  SaveOptions options;
  options.slab_bytes = 1000;
  ASSERT_TRUE(save_with(3, dir.path(), 7, 42, options).front().ok);
  RankState state = empty_state(sample_units(), 1, 2);
  std::vector<StateSlice> slices = state.slices;
  for (std::size_t i = 0; i < slices.size(); i += 2) slices[i].data = nullptr;
  int parts = 0;
  load(read_manifest(dir.path() + "/step-00000007"), sample_units(), slices,
       [&](const StateSlice& slice, std::int64_t at, std::int64_t count, const std::byte* data) {
         ++parts;
         const auto i = static_cast<std::size_t>(&slice - slices.data());
         std::memcpy(state.slices[i].data + at * 4, data, static_cast<std::size_t>(count) * 4);
       });
  EXPECT_GT(parts, 8);
  EXPECT_TRUE(same_bytes(state, filled_state(sample_units(), 1, 2, 42)));
}

/// What a rank has of a small unit may be a single element.
TEST(Load, GivesASliceOfOneElement) {
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(2, dir.path(), 7, 42).front().ok);
  const Manifest manifest = read_manifest(*find_latest(dir.path()));
  const RankState whole = filled_state(sample_units(), 0, 1, 42);
  for (const StateSlice& slice : whole.slices) {
    std::array<std::byte, 4> element{};
    StateSlice one = slice;
    one.begin += slice.count - 1;
    one.count = 1;
    one.data = element.data();
    load(manifest, sample_units(), std::span(&one, 1));
    EXPECT_EQ(std::memcmp(element.data(), slice.data + (slice.count - 1) * 4, 4), 0) << slice.unit;
  }
}

}  // namespace
}  // namespace weft::ckpt::test
