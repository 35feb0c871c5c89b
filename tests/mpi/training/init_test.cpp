// Tests model.init: whatever the mode and the number of ranks, a run starts from the weights that it names.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "ckpt/load.hpp"
#include "hf/export.hpp"
#include "io/file.hpp"
#include "support/curve.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/reference.hpp"
#include "support/shared_deck.hpp"
#include "support/temporary_directory.hpp"
#include "train/checkpointing.hpp"

namespace weft {
namespace {

using test::Curve;

/// A checkpoint of three steps and its export, both made by rank 0 alone.
class Init : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::world().rank() == 0) {
      directory_.emplace();
      const auto self = comm::make_self_world();
      const Deck deck = test::small_deck(
          {"run.dir=" + *directory_ / "run", "run.steps=3", "checkpoint.final=true", "data.global_batch=2"});
      train::Trainer(deck, *self).run();
      hf::export_weights(*directory_ / checkpoint_name, *directory_ / "hf", {hf::Element::f32, 50'000});
    }
    const std::string mine = directory_ ? directory_->path() : std::string();
    path_ = test::world().broadcast(mine, 0);
  }
  void TearDown() override { test::world().barrier(); }  // nobody reads any more

  Curve curve(const std::string& name, const std::string& mode, comm::World& world,
              const std::string& mesh = "{ data = 0 }") const {
    train::Trainer trainer(
        test::shared_deck(world, {"model.init=" + path_ + "/" + name, "parallel.mode=" + mode,
                                  "parallel.mesh=" + mesh, test::unit_buckets}),
        world);
    return test::train_steps(trainer, 2);
  }

  static constexpr const char* checkpoint_name = "run/checkpoints/step-00000003";
  std::optional<test::TemporaryDirectory> directory_;
  std::string path_;
};

TEST_F(Init, IsTheSameFromEitherFormatOnAnyNumberOfRanks) {
  const Curve alone = test::from_rank_zero([this] {
    const auto self = comm::make_self_world();
    return curve(checkpoint_name, "ddp", *self);
  });
  EXPECT_NE(alone.losses[0], alone.losses[1]);
  for (const char* mode : {"ddp", "zero1", "zero2", "fsdp"})
    for (const char* name : {checkpoint_name, "hf"})
      EXPECT_EQ(curve(name, mode, test::world()), alone) << mode << " from " << name;
}

TEST_F(Init, IsTheSameInAPipe) {
  const Curve alone = test::from_rank_zero([this] {
    const auto self = comm::make_self_world();
    return curve("hf", "ddp", *self);
  });
  const std::string pipe = "{ pipe = " + std::to_string(test::world().size()) + " }";
  for (const char* name : {checkpoint_name, "hf"})
    EXPECT_EQ(curve(name, "fsdp", test::world(), pipe), alone) << name;
}

TEST_F(Init, APipeIsExportedAsOneRankIs) {
  const std::string pipe = "parallel.mesh={ pipe = " + std::to_string(test::world().size()) + " }";
  const Deck deck = test::shared_deck(test::world(), {"run.dir=" + path_ + "/pipe", "run.steps=3",
                                                      "checkpoint.final=true", "data.global_batch=2", pipe});
  train::Trainer(deck, test::world()).run();
  if (test::world().rank() != 0) return;
  hf::export_weights(path_ + "/pipe/checkpoints/step-00000003", path_ + "/pipe_hf",
                     {hf::Element::f32, 50'000});
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(path_ + "/hf")) {
    ++files;
    EXPECT_EQ(io::read_text(path_ + "/pipe_hf/" + file.path().filename().string()),
              io::read_text(file.path().string()))
        << file.path();
  }
  EXPECT_GT(files, 3);
}

/// What ranks of a tensor axis keep of each parameter is read from either format, and all of it is exported.
TEST_F(Init, ATensorAxisReadsAndIsExportedAsOneRankIs) {
  const int ranks = test::world().size();
  if (ranks % 2 != 0) GTEST_SKIP() << "the model's heads are cut in two or four";
  const std::string mesh = "{ tensor = " + std::to_string(ranks) + " }";
  const Curve first = curve(checkpoint_name, "fsdp", test::world(), mesh);
  EXPECT_EQ(curve("hf", "fsdp", test::world(), mesh), first);
  const std::string two = "{ data = " + std::to_string(ranks / 2) + ", tensor = 2 }";
  const Curve of_two = curve(checkpoint_name, "fsdp", test::world(), two);
  EXPECT_EQ(curve("hf", "zero1", test::world(), two), of_two);
  const std::string stages = "{ pipe = " + std::to_string(ranks / 2) + ", tensor = 2 }";
  for (const char* name : {checkpoint_name, "hf"})
    EXPECT_EQ(curve(name, "fsdp", test::world(), stages), of_two) << name;

  const Deck deck = test::shared_deck(test::world(),
                                      {"run.dir=" + path_ + "/tensor", "run.steps=3", "checkpoint.final=true",
                                       "data.global_batch=2", "parallel.mesh=" + mesh});
  train::Trainer(deck, test::world()).run();
  if (test::world().rank() != 0) return;
  const std::string saved = "tensor/checkpoints/step-00000003";
  hf::export_weights(path_ + "/" + saved, path_ + "/tensor_hf", {hf::Element::f32, 50'000});
  const auto self = comm::make_self_world();
  const Curve alone = curve("hf", "ddp", *self);
  const Curve exported = curve("tensor_hf", "ddp", *self);
  EXPECT_EQ(exported, curve(saved, "ddp", *self));
  EXPECT_NEAR(first.losses[0] / alone.losses[0], 1, 1e-6);
  EXPECT_NEAR(exported.losses[0] / alone.losses[0], 1, 1e-4);
}

TEST_F(Init, TakesMastersAndNoMoments) {
  if (test::world().size() > 1) GTEST_SKIP() << "what one rank reads is looked at where there is one rank";
  const auto self = comm::make_self_world();
  const std::string checkpoint = path_ + "/" + checkpoint_name;
  train::Trainer trainer(test::small_deck({"model.init=" + path_ + "/hf"}), *self);
  EXPECT_EQ(trainer.step(), 0);
  for (const Unit& unit : trainer.state().units())
    for (const Parameter& p : unit.parameters)
      EXPECT_EQ(trainer.state().parameter(p.path), ckpt::load_parameter(checkpoint, p.path)) << p.path;
  for (const ckpt::StateSlice& slice : trainer.state().snapshot().slices) {
    if (slice.role == ckpt::Role::master) continue;
    const auto* moments = reinterpret_cast<const float*>(slice.data);
    EXPECT_TRUE(std::all_of(moments, moments + slice.count, [](float x) { return x == 0; })) << slice.unit;
  }
}

}  // namespace
}  // namespace weft
