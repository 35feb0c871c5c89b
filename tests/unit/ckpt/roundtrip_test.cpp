#include <gtest/gtest.h>

#include "ckpt/verify.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

TEST(CheckpointRoundTrip, AnyNumberOfRanksLoadsAnyOther) {
  // Slabs of 1000 bytes do not end on boundaries of shards, rows, or parameters. Slabs of 64 MiB hold a whole
  // dataset.
  for (const std::int64_t slab : {std::int64_t{1000}, std::int64_t{64} << 20}) {
    for (const int saved : {1, 2, 3}) {
      TemporaryDirectory dir;
      SaveOptions options;
      options.slab_bytes = slab;
      options.alignment = 4096;
      for (const auto& report : save_with(saved, dir.path(), 10, 1, options))
        ASSERT_TRUE(report.ok) << report.reason;
      const auto found = find_latest(dir.path());
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(*found, dir.path() + "/step-00000010");
      for (const int loaded : {1, 2, 3, 4, 6})
        EXPECT_TRUE(loads_as(*found, loaded, 1)) << saved << " to " << loaded;
      EXPECT_FALSE(loads_as(*found, 2, 2)) << "the comparison must be able to fail";
      EXPECT_TRUE(verify(*found).empty());
    }
  }
}

TEST(CheckpointRoundTrip, SomeRanksHoldNothingOfASmallUnit) {
  EXPECT_EQ(filled_state(sample_units(), 1, 2, 1).slices.back().count, 0);
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(6, dir.path(), 1, 3).front().ok);
  EXPECT_TRUE(loads_as(*find_latest(dir.path()), 1, 3));
}

TEST(CheckpointRoundTrip, UnitsMayGroupParametersInAnotherWay) {
  TemporaryDirectory dir;
  SaveOptions options;
  options.slab_bytes = 1024;
  ASSERT_TRUE(save_with(3, dir.path(), 1, 4, options).front().ok);
  for (const int ranks : {1, 2, 4})
    EXPECT_TRUE(loads_as(*find_latest(dir.path()), ranks, 4, regrouped_units()));
}

TEST(CheckpointRoundTrip, RunStateAndReport) {
  TemporaryDirectory dir;
  const auto reports = save_with(2, dir.path(), 100, 1);
  const RunState run = load_run_state(reports[0].path);
  const RunState saved = sample_run(100);
  EXPECT_EQ(run.step, 100);
  EXPECT_EQ(run.tokens, saved.tokens);
  EXPECT_EQ(run.sample, saved.sample);
  EXPECT_EQ(run.seed, saved.seed);
  EXPECT_EQ(run.deck, saved.deck);
  EXPECT_EQ(run.model_key, saved.model_key);
  EXPECT_EQ(run.weft_version, saved.weft_version);
  EXPECT_EQ(run.git_hash, saved.git_hash);
  EXPECT_EQ(run.world, 2);
  EXPECT_EQ(run.mode, "fsdp");
  std::int64_t data = 0;
  for (const auto& unit : sample_units()) data += unit.elements * 3 * 4;
  EXPECT_GE(reports[0].bytes, data);
  EXPECT_EQ(reports[0].bytes, read_manifest(reports[0].path).bytes());
  // The other rank tells what it has itself, which is a half but for padding.
  EXPECT_GT(reports[1].bytes, reports[0].bytes / 3);
  EXPECT_LT(reports[1].bytes, reports[0].bytes * 2 / 3);
}

TEST(CheckpointRoundTrip, WholeParameters) {
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(3, dir.path(), 1, 5).front().ok);
  const Manifest manifest = read_manifest(*find_latest(dir.path()));
  for (const Unit& unit : sample_units()) {
    for (const Parameter& p : unit.parameters) {
      for (const Role role : all_roles)
        EXPECT_EQ(load_parameter(manifest, p.path, role), whole_parameter(role, p, 5));
    }
  }
  EXPECT_NE(error_of([&] { load_parameter(manifest, "layers.9.attn.wq"); }).find("layers.9.attn.wq"),
            std::string::npos);
}

TEST(CheckpointRoundTrip, TheElementTypeIsData) {
  TemporaryDirectory dir;
  SaveOptions options;
  options.slab_bytes = 999;  // it is not a multiple of an element
  ASSERT_TRUE(save_with(2, dir.path(), 1, 6, options, {}, DType::bf16).front().ok);
  const std::string checkpoint = *find_latest(dir.path());
  EXPECT_TRUE(loads_as(checkpoint, 3, 6, sample_units(), DType::bf16));
  const Parameter p = sample_units()[3].parameters[0];
  auto expected = whole_parameter(Role::exp_avg, p, 6);
  for (float& x : expected) x = to_float(to_bf16(x));
  EXPECT_EQ(load_parameter(checkpoint, p.path, Role::exp_avg), expected);
  const auto message = error_of([&] { loads_as(checkpoint, 1, 6); });
  EXPECT_NE(message.find("bf16"), std::string::npos) << message;
}

TEST(CheckpointRoundTrip, RolesMayHaveElementTypesOfTheirOwn) {
  TemporaryDirectory dir;
  const auto units = sample_units();
  const RankState wide = filled_state(units, 0, 1, 6), narrow = filled_state(units, 0, 1, 6, DType::bf16);
  std::vector<StateSlice> slices;
  for (std::size_t i = 0; i < wide.slices.size(); ++i)
    slices.push_back((wide.slices[i].role == Role::master ? wide : narrow).slices[i]);
  const SaveReport report = save(dir.path(), sample_run(1), units, slices, single_rank(), {});
  ASSERT_TRUE(report.ok) << report.reason;
  const std::string checkpoint = *find_latest(dir.path());
  for (const Unit& unit : units)
    for (const Parameter& p : unit.parameters) {
      EXPECT_EQ(load_parameter(checkpoint, p.path, Role::master), whole_parameter(Role::master, p, 6));
      auto rounded = whole_parameter(Role::exp_avg, p, 6);
      for (float& x : rounded) x = to_float(to_bf16(x));
      EXPECT_EQ(load_parameter(checkpoint, p.path, Role::exp_avg), rounded);
    }
}

TEST(CheckpointRoundTrip, AnotherModelIsRefused) {
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(2, dir.path(), 1, 1).front().ok);
  const std::string checkpoint = *find_latest(dir.path());
  const Manifest manifest = read_manifest(checkpoint);
  EXPECT_NO_THROW(check_model(manifest, "model.layers=1\nmodel.dim = 33"));
  const auto key = error_of([&] { check_model(manifest, "model.dim = 33\nmodel.layers = 2\n"); });
  EXPECT_NE(key.find("model.layers is 1 there and 2 here"), std::string::npos) << key;
  const auto missing =
      error_of([&] { check_model(manifest, "model.dim = 33\nmodel.layers = 1\nmodel.vocab = 7\n"); });
  EXPECT_NE(missing.find("model.vocab is not set there and 7 here"), std::string::npos) << missing;

  const auto load_with = [&](const std::vector<Unit>& units) {
    RankState state = empty_state(units, 0, 1);
    load(checkpoint, units, state.slices);
  };
  auto units = sample_units();
  units[1].parameters[1].shape = {11, 99};
  const auto shape = error_of([&] { load_with(units); });
  EXPECT_NE(shape.find("layers.0.attn.wq is [33, 33] there and [11, 99] here"), std::string::npos) << shape;
  units = sample_units();
  units.pop_back();
  EXPECT_NE(error_of([&] { load_with(units); }).find("another model"), std::string::npos);
  units = sample_units();
  units[4].parameters[0].path = "tiny.shift";
  EXPECT_NE(error_of([&] { load_with(units); }).find("no parameter tiny.shift"), std::string::npos);
}

TEST(CheckpointRoundTrip, SlicesThatLeaveAGapOrOverlapAreNotSaved) {
  for (const int shift : {-1, 1}) {
    TemporaryDirectory dir;
    RankState state = filled_state(sample_units(), 0, 1, 1);
    auto slices = state.slices;
    slices[0].count += shift;
    state.memory[0].resize(state.memory[0].size() + 4);
    slices[0].data = state.memory[0].data();
    const auto report = save(dir.path(), sample_run(1), sample_units(), slices, single_rank());
    EXPECT_FALSE(report.ok);
    EXPECT_NE(report.reason.find("do not cover master of unit embed"), std::string::npos) << report.reason;
    EXPECT_TRUE(fs::is_empty(dir.path()));
  }
}

}  // namespace
}  // namespace weft::ckpt::test
