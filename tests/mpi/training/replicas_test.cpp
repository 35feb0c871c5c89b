// Tests meshes with a replica axis: state is cut inside a group, and other groups have copies of it. The
// gradients' sum has another order than without replicas, and nothing else differs.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/device.hpp"
#include "compare/compare_hashes.hpp"
#include "mpi/training/cut_axis.hpp"
#include "support/curve.hpp"
#include "support/fake_ranks.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/reference.hpp"
#include "support/shared_deck.hpp"
#include "train/checkpointing.hpp"

namespace weft {
namespace {

using Sets = std::vector<std::string>;
using test::Curve;
using test::world;

constexpr auto modes = {"ddp", "zero1", "zero2", "fsdp"};

/// All meshes with two axes over the ranks of this test. Six ranks are here for two axes of different sizes:
/// replicas alone are tested on two, three and four.
std::vector<std::string> meshes() {
  std::vector<std::string> list;
  for (int replicas = 2; replicas <= world().size(); ++replicas)
    if (world().size() % replicas == 0 && replicas < 6)
      list.push_back(
          fmt::format("parallel.mesh={{ replica = {}, data = {} }}", replicas, world().size() / replicas));
  return list;
}

constexpr int steps = 4;

/// By all ranks together.
Curve train(const Sets& sets) {
  train::Trainer trainer(test::shared_deck(world(), sets), world());
  return test::train_steps(trainer, steps);
}
Curve alone() {
  return test::reference({}, steps);
}

/// One rank has no replicas: a loop over its meshes would test nothing.
class Replicas : public testing::Test {
 protected:
  void SetUp() override {
    if (meshes().empty()) GTEST_SKIP() << "needs several ranks";
  }
};

/// The first step's loss has no sum of gradients in it; later ones are near.
void expect_near(const Curve& a, const Curve& b) {
  EXPECT_EQ(a.losses.front(), b.losses.front());
  EXPECT_EQ(a.tokens, b.tokens);
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(b.losses[i] / a.losses[i], 1, 1e-5) << "step " << i;
    EXPECT_NEAR(b.norms[i] / a.norms[i], 1, 1e-3) << "step " << i;
  }
}

TEST_F(Replicas, EveryModeHasTheSameBits) {
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

TEST_F(Replicas, EveryModeHasTheSameBitsInOtherNumericsToo) {
  for (const Sets& numerics :
       {Sets{"precision.params=bf16", "precision.grad_wire=bf16"}, Sets{"schedule.accumulate=once"}})
    for (const std::string& mesh : meshes()) {
      Sets sets = numerics;
      sets.insert(sets.begin(), {test::unit_buckets, mesh});
      const Curve first = train(sets);
      for (const char* mode : {"ddp", "zero1"}) {
        sets.push_back(std::string("parallel.mode=") + mode);
        EXPECT_EQ(train(sets), first) << ::testing::PrintToString(sets);
      }
    }
}

TEST_F(Replicas, ScheduleLeavesTheBitsAlone) {
  for (const std::string& mesh : meshes()) {
    const Curve reference = train({mesh});
    for (Sets sets : {Sets{"schedule.bucketing=manual"},
                      Sets{"schedule.bucketing=manual", "schedule.buckets=[\"layers\"]"},
                      Sets{"schedule.bucketing=greedy"}, Sets{"schedule.bucketing=auto"},
                      Sets{"schedule.prefetch=4", "schedule.reduce_delay=3"},
                      Sets{"schedule.disable=[\"order\", \"memory\"]"}, Sets{"schedule.disable=share"},
                      Sets{"schedule.recompute=full", "schedule.regather=never"}}) {
      SCOPED_TRACE(mesh + ::testing::PrintToString(sets));
      sets.insert(sets.begin(), {test::unit_buckets, mesh});
      EXPECT_EQ(train(sets), reference);
    }
  }
}

/// On the host the library's own reductions add in the order of the ranks, too. NCCL's promise no order, and
/// those of its fake have another one from three ranks on (docs/fakecuda.md).
TEST_F(Replicas, AreAddedUpInTheirOrder) {
  for (const std::string& mesh : meshes()) {
    SCOPED_TRACE(mesh);
    const Curve ordered = train({mesh, test::unit_buckets});
    const Curve native = train({mesh, test::unit_buckets, "precision.reduction=native"});
    if (device_is_host()) {
      EXPECT_EQ(native, ordered);
    } else {
      expect_near(ordered, native);
    }
#ifdef WEFT_FAKECUDA
    EXPECT_EQ(native.hash == ordered.hash, world().size() == 2);
#endif
  }
}

TEST(OneReplica, IsAsGoodAsNone) {
  const Curve reference = alone();
  for (const char* mode : modes)
    EXPECT_EQ(train({"parallel.mesh={ replica = 1, data = 0 }", test::unit_buckets,
                     std::string("parallel.mode=") + mode}),
              reference)
        << mode;
}

/// The axes in the other order: replicas are neighbours. Each has the microbatches that it had before, and so
/// the bits are the same.
TEST_F(Replicas, MayBeNeighbours) {
  if (world().size() < 4) GTEST_SKIP() << "needs two axes of several ranks";
  const Curve apart = train({"parallel.mesh={ replica = 2, data = 0 }"});
  EXPECT_EQ(
      train({"parallel.mesh={ data = 0, replica = 2 }", "parallel.mode=zero1", "schedule.bucketing=manual"}),
      apart);
}

/// Ranks of another axis compute a replica's sum of gradients together, and the replicas' sums are added up
/// as if each were one rank's. What such a mesh saves, one rank loads.
TEST_F(Replicas, BesideTheOtherAxes) {
  if (world().size() != 4) GTEST_SKIP() << "needs two axes of two ranks";
  constexpr int few = 2;
  const auto with = [](const std::string& mesh, const Sets& more = {}) {
    Sets sets{test::unit_buckets, "optimizer.lr=1e-3", "data.global_batch=6",
              "parallel.mesh={ " + mesh + " }"};
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
  };
  for (const std::string axis : {"pipe", "tensor", "context"}) {
    SCOPED_TRACE(axis);
    Curve first;
    {
      train::Trainer trainer(test::shared_deck(world(), with("replica = 2, " + axis + " = 2")), world());
      first = test::train_steps(trainer, few);
    }
    test::expect_near(first, with("data = 0"), 1e-6);
    const Deck deck = test::shared_deck(
        world(),
        with(axis + " = 2, replica = 2", {"parallel.mode=zero1", "run.steps=3", "checkpoint.final=true"}));
    std::uint64_t hash = 0;
    {
      train::Trainer trainer(deck, world());
      EXPECT_EQ(test::train_steps(trainer, few), first);
      trainer.run();
      hash = trainer.state().hash();
    }
    if (world().rank() == 0) {
      const auto self = comm::make_self_world();
      const Sets resumed =
          with("data = 0", {"checkpoint.resume=" + deck.run.dir + "/checkpoints/step-00000003"});
      EXPECT_EQ(train::Trainer(test::shared_deck(*self, resumed), *self).state().hash(), hash);
      std::filesystem::remove_all(deck.run.dir);
    }
    world().barrier();
    if (axis == "pipe" && device_is_host()) {
      const Deck two = test::shared_deck(world(), with("replica = 2"));
      EXPECT_EQ(first,
                test::from_rank_zero([&] { return test::train_on_fakes(two, {.size = 2}, few).front(); }))
          << "a pipe leaves the bits of replicas of one rank";
    }
  }
}

/// What a mesh saves, any other loads: each rank writes its own part of what its replicas have alike. What
/// fsdp saves is loaded on all layouts, by one rank as well; what the others save is loaded on the next one.
TEST_F(Replicas, CheckpointsLoadOnAnyMesh) {
  std::vector<std::string> layouts = meshes();
  layouts.emplace_back("parallel.mesh={ data = 0 }");
  for (std::size_t m = 0; m + 1 < layouts.size(); ++m)
    for (const std::string mode : {"ddp", "zero2", "fsdp"}) {
      SCOPED_TRACE(layouts[m] + " " + mode);
      const Deck deck = test::shared_deck(world(), {test::unit_buckets, layouts[m], "parallel.mode=" + mode,
                                                    "run.steps=2", "checkpoint.final=true"});
      std::uint64_t hash = 0;
      {
        train::Trainer trainer(deck, world());
        trainer.run();
        hash = trainer.state().hash();
      }
      const std::string resume = "checkpoint.resume=" + deck.run.dir + "/checkpoints/step-00000002";
      const auto loaded = [&](const std::string& layout, comm::World& ranks) {
        return train::Trainer(test::shared_deck(ranks, {test::unit_buckets, resume, layout}), ranks)
            .state()
            .hash();
      };
      for (std::size_t other = 0; other < layouts.size(); ++other)
        if (mode == "fsdp" || other == m + 1) {
          EXPECT_EQ(loaded(layouts[other], world()), hash) << layouts[other];
        }
      if (world().rank() == 0) {
        const auto self = comm::make_self_world();
        if (mode == "fsdp") {
          EXPECT_EQ(loaded("parallel.mesh={ data = 0 }", *self), hash) << "by one rank";
        }
        std::filesystem::remove_all(deck.run.dir);
      }
      world().barrier();
    }
}

/// `weft compare` finds the sum of the gradients, and nothing before it.
TEST_F(Replicas, HashesPartAtTheSumOfTheGradients) {
  const auto hashes = [](Sets sets, comm::World& ranks) {
    sets.insert(sets.begin(), {"debug.hash_every=1", test::unit_buckets});
    const Deck deck = test::shared_deck(ranks, sets);
    train::Trainer trainer(deck, ranks);
    test::train_steps(trainer, 1);
    return ranks.rank() == 0 ? compare::read_hashes(deck.run.dir + "/hashes.jsonl")
                             : std::vector<compare::StepHashes>{};
  };
  std::vector<compare::StepHashes> reference;
  if (world().rank() == 0) {
    const auto self = comm::make_self_world();
    reference = hashes({}, *self);
  }
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
