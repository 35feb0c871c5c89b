// Tests descriptions that are too long to be gathered, or read, at once. Slabs of 8 bytes make them so long.
#include <gtest/gtest.h>

#include "base/check.hpp"
#include "ckpt/description.hpp"
#include "ckpt/verify.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

std::vector<Unit> one_unit(std::int64_t elements) {
  return {Unit{"a", {Parameter{"a.w", {elements}, 0}}, elements}};
}

/// A rank's state with nothing but the masters.
RankState masters_of(const std::vector<Unit>& units, int rank, int ranks) {
  RankState state = filled_state(units, rank, ranks, 1);
  state.slices.resize(1);
  return state;
}

SaveOptions tiny_slabs() {
  SaveOptions options;
  options.slab_bytes = 8;
  return options;
}

TEST(Descriptions, AreGatheredAndReadInParts) {
  constexpr int ranks = 4;
  const auto units = one_unit(std::int64_t{1} << 20);
  TemporaryDirectory dir;
  int gathers = 0;
  with_ranks(ranks, [&](Hooks hooks) {
    const RankState state = masters_of(units, hooks.rank, ranks);
    const auto gather = hooks.gather;
    hooks.gather = [&, gather](const std::string& text) {
      if (hooks.rank == 0) ++gathers;
      return gather(text);
    };
    const SaveReport report = save(dir.path(), sample_run(1), units, state.slices, hooks, tiny_slabs());
    EXPECT_TRUE(report.ok) << report.reason;
  });
  EXPECT_EQ(gathers, 4) << "of needs, of lengths, of three ranks' lines, and of the last rank's";
  const std::string checkpoint = dir.path() + "/step-00000001";
  const Manifest manifest = read_manifest(checkpoint);
  EXPECT_GT(manifest.slices.bytes, 2 * static_cast<std::int64_t>(detail::block_bytes));
  EXPECT_EQ(manifest.state_bytes, 4 * units[0].elements);
  EXPECT_TRUE(verify(checkpoint).empty());
  with_ranks(3, [&](const Hooks& hooks) {
    RankState state = empty_state(units, hooks.rank, 3);
    state.slices.resize(1);
    load(read_manifest(checkpoint, hooks), units, state.slices, hooks);
    EXPECT_EQ(state.memory[0], masters_of(units, hooks.rank, 3).memory[0]);
  });
}

TEST(Descriptions, ALineThatCouldNotBeReadIsNotSaved) {
  const auto units = one_unit(std::int64_t{1} << 19);
  TemporaryDirectory dir;
  const RankState state = masters_of(units, 0, 1);
  const SaveReport report = save(dir.path(), sample_run(1), units, state.slices, single_rank(), tiny_slabs());
  EXPECT_FALSE(report.ok);
  EXPECT_NE(report.reason.find("use more ranks, or larger slabs"), std::string::npos) << report.reason;
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(Descriptions, OfVeryManySlicesHaveNoIndex) {
  TemporaryDirectory dir;
  Manifest manifest;
  for (int i = 0; i < 1024; ++i)
    manifest.units.push_back(Unit{fmt::format("u{}", i), {}, std::int64_t{1} << 20});
  detail::Description description(dir.path(), manifest);
  Shard shard{"shard-00000.h5", 0, {}, {}};
  for (int unit = 0; unit < 1024; ++unit)
    shard.slices.push_back({Role::master, unit, DType::f32, 0, 1, 0, {7}});
  const auto add = [&](std::int64_t begin) {
    for (ShardSlice& s : shard.slices) s.begin = begin;
    description.add({detail::to_line(shard)});
  };
  for (std::int64_t begin = 0; begin < 256; ++begin) add(begin);
  ASSERT_EQ(description.indexed().size(), 256U);
  EXPECT_TRUE(description.indexed()[0].slices[0].checksums.empty());
  add(256);
  EXPECT_TRUE(description.indexed().empty());
}

}  // namespace
}  // namespace weft::ckpt::test
