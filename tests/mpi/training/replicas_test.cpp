// Tests meshes with a replica axis: state is cut inside a group, and other groups have copies of it. The
// gradients' sum has another order than without replicas, and nothing else differs.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "compare/compare_hashes.hpp"
#include "support/curve.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/shared_deck.hpp"
#include "train/checkpointing.hpp"

namespace weft {
namespace {

using Sets = std::vector<std::string>;
using test::Curve;
using test::world;

constexpr auto modes = {"ddp", "zero1", "zero2", "fsdp"};

/// All meshes with two axes over the ranks of this test.
std::vector<std::string> meshes() {
  std::vector<std::string> list;
  for (int replicas = 2; replicas <= world().size(); ++replicas)
    if (world().size() % replicas == 0)
      list.push_back(
          fmt::format("parallel.mesh={{ replica = {}, data = {} }}", replicas, world().size() / replicas));
  return list;
}

Curve train(const Sets& sets, comm::World& ranks = world()) {
  train::Trainer trainer(test::shared_deck(ranks, sets), ranks);
  return test::train_steps(trainer, 6);
}
Curve alone(const Sets& sets = {}) {
  const auto self = comm::make_self_world();
  return train(sets, *self);
}

/// Expects the first loss to be equal, because no sum of gradients is in it, and later ones to be near.
void expect_near(const Curve& a, const Curve& b) {
  EXPECT_EQ(a.losses.front(), b.losses.front());
  EXPECT_EQ(a.tokens, b.tokens);
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(b.losses[i] / a.losses[i], 1, 1e-5) << "step " << i;
    EXPECT_NEAR(b.norms[i] / a.norms[i], 1, 1e-3) << "step " << i;
  }
}

TEST(Replicas, EveryModeHasTheSameBits) {
  const Curve reference = alone();
  for (const std::string& mesh : meshes()) {
    const Curve first = train({mesh});
    expect_near(reference, first);
    for (const char* mode : modes) {
      SCOPED_TRACE(mesh + " " + mode);
      EXPECT_EQ(train({mesh, std::string("parallel.mode=") + mode}), first);
    }
  }
}

TEST(Replicas, EveryModeHasTheSameBitsInOtherNumericsToo) {
  for (const Sets& numerics :
       {Sets{"precision.params=bf16", "precision.grad_wire=bf16"}, Sets{"schedule.accumulate=once"}})
    for (const std::string& mesh : meshes()) {
      Sets sets = numerics;
      sets.push_back(mesh);
      const Curve first = train(sets);
      for (const char* mode : {"ddp", "zero1"}) {
        sets.push_back(std::string("parallel.mode=") + mode);
        EXPECT_EQ(train(sets), first) << ::testing::PrintToString(sets);
      }
    }
}

TEST(Replicas, ScheduleLeavesTheBitsAlone) {
  for (const std::string& mesh : meshes()) {
    const Curve reference = train({mesh});
    for (Sets sets : {Sets{"schedule.bucketing=manual"},
                      Sets{"schedule.bucketing=manual", "schedule.buckets=[\"layers\"]"},
                      Sets{"schedule.bucketing=greedy"}, Sets{"schedule.bucketing=auto"},
                      Sets{"schedule.prefetch=4", "schedule.reduce_delay=3"},
                      Sets{"schedule.disable=[\"order\", \"memory\"]"}, Sets{"schedule.disable=share"},
                      Sets{"schedule.recompute=full", "schedule.regather=never"}}) {
      SCOPED_TRACE(mesh + ::testing::PrintToString(sets));
      sets.push_back(mesh);
      EXPECT_EQ(train(sets), reference);
    }
  }
}

/// On the host the library's own all-reduce adds in the order of the ranks, too.
TEST(Replicas, AreAddedUpInTheirOrder) {
  for (const std::string& mesh : meshes())
    EXPECT_EQ(train({mesh, "precision.reduction=native"}), train({mesh})) << mesh;
}

TEST(Replicas, OneIsAsGoodAsNone) {
  const Curve reference = alone();
  for (const char* mode : modes)
    EXPECT_EQ(train({"parallel.mesh={ replica = 1, data = 0 }", std::string("parallel.mode=") + mode}),
              reference)
        << mode;
}

/// With the axes in the other order, replicas are neighbours. Other microbatches meet first, so the bits are
/// others.
TEST(Replicas, MayBeNeighbours) {
  if (world().size() < 4) GTEST_SKIP() << "needs two axes of several ranks";
  const std::string mesh = "parallel.mesh={ data = 0, replica = 2 }";
  const Curve first = train({mesh});
  expect_near(alone(), first);
  EXPECT_EQ(train({mesh, "parallel.mode=zero1", "schedule.bucketing=manual"}), first);
}

/// A checkpoint that one mesh saves loads on any other: each rank writes its own part of what its replicas
/// have alike.
TEST(Replicas, CheckpointsLoadOnAnyMesh) {
  std::vector<std::string> layouts = meshes();
  layouts.emplace_back("parallel.mesh={ data = 0 }");
  for (const std::string& saved_on : meshes())
    for (const char* mode : {"ddp", "zero2", "fsdp"}) {
      SCOPED_TRACE(saved_on + " " + mode);
      const std::string dir = world().broadcast(test::small_deck().run.dir, 0);
      const Deck deck = test::small_deck({"run.dir=" + dir, saved_on, std::string("parallel.mode=") + mode,
                                          "run.steps=2", "checkpoint.final=true"});
      std::uint64_t hash = 0;
      {
        train::Trainer trainer(deck, world());
        trainer.run();
        hash = trainer.state().hash();
      }
      const std::string resume = "checkpoint.resume=" + dir + "/checkpoints/step-00000002";
      for (const std::string& layout : layouts)
        EXPECT_EQ(train::Trainer(test::shared_deck(world(), {resume, layout}), world()).state().hash(), hash)
            << layout;
      const auto self = comm::make_self_world();
      EXPECT_EQ(train::Trainer(test::small_deck({resume}), *self).state().hash(), hash);
      world().barrier();
      if (world().rank() == 0) std::filesystem::remove_all(dir);
      world().barrier();
    }
}

/// `weft compare` finds the sum of the gradients, and nothing before it.
TEST(Replicas, HashesPartAtTheSumOfTheGradients) {
  const auto hashes = [](Sets sets, comm::World& ranks) {
    sets.insert(sets.begin(), "debug.hash_every=1");
    const Deck deck = test::shared_deck(ranks, sets);
    train::Trainer trainer(deck, ranks);
    test::train_steps(trainer, 1);
    return ranks.rank() == 0 ? compare::read_hashes(deck.run.dir + "/hashes.jsonl")
                             : std::vector<compare::StepHashes>{};
  };
  const auto self = comm::make_self_world();
  const auto reference = hashes({}, *self);
  for (const std::string& mesh : meshes())
    for (const char* mode : modes) {
      SCOPED_TRACE(mesh + " " + mode);
      const auto here = hashes({mesh, std::string("parallel.mode=") + mode}, world());
      if (here.empty()) continue;
      const compare::Comparison c = compare::compare_hashes(reference, here);
      EXPECT_EQ(c.only_in_a, 0U);
      EXPECT_EQ(c.only_in_b, 0U);
      ASSERT_TRUE(c.parting);
      EXPECT_TRUE(c.parting->in_a.value.ends_with(".sum")) << c.parting->in_a.value;
    }
}

}  // namespace
}  // namespace weft
