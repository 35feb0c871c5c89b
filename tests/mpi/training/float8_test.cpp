// Tests training in Float8: scales and bits are those of one rank on all meshes and in all modes, and losses
// are near those in bf16.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mpi/training/cut_axis.hpp"
#include "plan/report.hpp"
#include "support/kokkos_environment.hpp"
#include "support/pipe_meshes.hpp"
#include "support/reference.hpp"
#include "support/shared_deck.hpp"

namespace weft {
namespace {

using Sets = std::vector<std::string>;
using test::Curve;
using test::world;

class Float8 : public testing::Test {
 protected:
  static constexpr const char* in_float8 = "precision.float8=[\"layers.1-2\"]";

  static Sets model(const Sets& more) {
    Sets sets{test::unit_buckets, "optimizer.lr=1e-3", "model.layers=4", "model.heads=4",
              "model.kv_heads=2", "model.dim=64",      "model.ffn=160",  "precision.params=bf16"};
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
  }
  static Curve train(const Sets& sets) {
    weft::train::Trainer trainer(test::shared_deck(world(), model(sets)), world());
    return test::train_steps(trainer, steps);
  }
  static Curve alone(const Sets& sets) { return test::reference(model(sets), steps); }

 private:
  static constexpr int steps = 4;
};

TEST_F(Float8, ModesHaveTheSameBits) {
  for (const char* where : {in_float8, "precision.float8=[\"layers.*\", \"layers.0.attn\"]"}) {
    const Curve reference = alone({where});
    for (const Sets& how :
         {Sets{}, Sets{"parallel.mode=ddp"}, Sets{"parallel.mode=zero1"}, Sets{"parallel.mode=zero2"},
          Sets{"schedule.recompute=full"}, Sets{"schedule.regather=never"}, Sets{"schedule.bucketing=auto"},
          Sets{"schedule.bucketing=manual"},
          Sets{"schedule.recompute=selective", "schedule.recompute_ops=[\"matmul\", \"rms_norm\"]"},
          Sets{"schedule.disable=[\"share\", \"rows\", \"memory\"]"}}) {
      Sets sets{where};
      sets.insert(sets.end(), how.begin(), how.end());
      EXPECT_EQ(train(sets), reference) << where << testing::PrintToString(how);
    }
  }
}

TEST_F(Float8, PipesHaveTheSameBits) {
  if (world().size() == 1) GTEST_SKIP() << "needs several ranks";
  const std::string layers = fmt::format("model.layers={}", test::layers_of_pipe());
  const Curve reference = alone({in_float8, layers});
  for (const std::string& mesh : test::some_pipe_meshes())
    for (const Sets& schedule : {Sets{"pipeline.schedule=1f1b"}, Sets{"pipeline.schedule=zb_h1"},
                                 Sets{"pipeline.schedule=zbv", "pipeline.chunks=2"}}) {
      Sets sets{in_float8, layers, mesh};
      sets.insert(sets.end(), schedule.begin(), schedule.end());
      EXPECT_EQ(train(sets), reference) << mesh << testing::PrintToString(schedule);
    }
}

/// A context axis changes the order of sums, and so the last bits of bf16; a tensor axis changes the scales
/// of rows of which ranks have parts, too.
TEST_F(Float8, AxesThatCutActivationsAreNear) {
  for (const char* axis : {"tensor", "context"})
    for (const int size : test::axis_sizes()) {
      if (size == 3) continue;  // four heads, 32 tokens
      const std::vector<std::string> meshes = test::meshes_with(axis, size);
      const Curve first = train({in_float8, meshes.front()});
      test::expect_near(first, model({in_float8}), 2e-3);
      EXPECT_EQ(train({in_float8, meshes.front(), "schedule.recompute=selective",
                       "schedule.recompute_ops=[\"all_gather\"]"}),
                first);
      for (const std::string& mesh : meshes) {
        EXPECT_EQ(train({in_float8, mesh}), first) << mesh;
        EXPECT_EQ(train({in_float8, mesh, "schedule.recompute=full"}), first) << mesh;
      }
    }
}

/// Where ranks have parts of what has one scale, each has a scale of its own. All are powers of two, so
/// numbers are rounded alike, but for those far below the largest: gradients are as far from those of one
/// rank as they are in bf16.
TEST_F(Float8, PartsOfRowsAreRoundedAlike) {
  for (const char* scales : {"rowwise", "tensorwise"})
    for (const char* axis : {"tensor", "context"})
      for (const int size : test::axis_sizes()) {
        if (size == 3) continue;  // four heads, 32 tokens
        SCOPED_TRACE(scales);
        test::expect_gradients_near(
            model({in_float8, std::string("precision.float8_scales=") + scales, "precision.grad_wire=bf16"}),
            {test::meshes_with(axis, size).front()}, 6e-2);
      }
}

/// Two heads of keys, then one, which all ranks of the axis have.
TEST_F(Float8, NeighboursThatShareHeadsOfKeysHaveTheSameWeights) {
  if (world().size() % 2 != 0) GTEST_SKIP() << "needs two or four ranks";
  for (const char* heads : {"model.kv_heads=2", "model.kv_heads=1"}) {
    const std::string mesh = fmt::format("parallel.mesh={{ tensor = {} }}", world().size());
    test::expect_near(train({in_float8, heads, mesh}), model({in_float8, heads}), 2e-3);
  }
}

/// Scales are those of whole weights, of which a rank has a slice and a replica has all. So a step begins
/// with the numbers of one rank. The sum of its gradients has another order.
TEST_F(Float8, ReplicasHaveTheScalesOfOneRank) {
  if (world().size() == 1) GTEST_SKIP() << "needs several ranks";
  const Curve reference = alone({in_float8});
  for (const int replicas : test::axis_sizes()) {
    const std::string mesh =
        fmt::format("parallel.mesh={{ replica = {}, data = {} }}", replicas, world().size() / replicas);
    SCOPED_TRACE(mesh);
    const Curve first = train({in_float8, mesh});
    EXPECT_EQ(first.losses.front(), reference.losses.front());
    test::expect_near(first, model({in_float8}), 2e-3);
    EXPECT_EQ(train({in_float8, mesh, "parallel.mode=ddp"}), first);
  }
}

/// The embedding sends only the rows that tokens name, of which a plan knows an expected number.
TEST_F(Float8, GathersSendOneByteAnElement) {
  if (world().size() == 1) GTEST_SKIP() << "needs several ranks";
  weft::train::Trainer trainer(test::shared_deck(world(), model({in_float8, "schedule.disable=rows"})),
                               world());
  std::int64_t elements = 0, gathered = 0, reduced = 0, sent = 0;
  for (const Unit& unit : trainer.plan().graph.units())
    if (unit.float8) elements += unit.padded_elements(world().size());
  for (const auto& [name, total] : plan::collective_totals(trainer.plan())) {
    sent += total.wire_bytes;
    if (name.find("all_gather e4m3") != std::string::npos) gathered += total.payload_bytes;
    if (name.find("all_reduce") != std::string::npos) reduced += total.payload_bytes;
  }
  ASSERT_GT(elements, 0);
  EXPECT_EQ(gathered, 2 * 3 * elements) << "forward and backward of three rounds";
  // From three ranks on, an all-reduce as short as these is sent whole to every rank.
  EXPECT_NEAR(static_cast<double>(*trainer.train_step().sent_bytes), static_cast<double>(sent),
              world().size() <= 2 ? 0 : static_cast<double>(reduced * world().size()));
}

TEST_F(Float8, CheckpointsLoadOnAnyMesh) {
  std::vector<std::string> meshes{"parallel.mesh={ data = 0 }"};
  if (world().size() % 2 == 0)
    meshes.insert(meshes.end(),
                  {"parallel.mesh={ data = 0, pipe = 2 }", "parallel.mesh={ data = 0, tensor = 2 }"});
  test::expect_checkpoints_load(model({in_float8, "model.layers=5"}), meshes);
}

TEST_F(Float8, LossesAreNearThoseInBf16) {
  const Curve wide = train({}), narrow = train({in_float8});
  for (std::size_t i = 0; i < wide.losses.size(); ++i) {
    EXPECT_NE(narrow.losses[i], wide.losses[i]);
    EXPECT_NEAR(narrow.losses[i] / wide.losses[i], 1, 1e-3);
    EXPECT_NEAR(narrow.norms[i] / wide.norms[i], 1, 3e-2);
  }
}

TEST_F(Float8, GradientsMayBeInTheOtherFormat) {
  const Curve reference = alone({in_float8, "precision.float8_gradients=e5m2"});
  EXPECT_NE(reference, alone({in_float8}));
  EXPECT_EQ(train({in_float8, "precision.float8_gradients=e5m2"}), reference);
}

TEST_F(Float8, OneScaleForAllRowsIsThatOfAMicrobatch) {
  const char* const one = "precision.float8_scales=tensorwise";
  const Curve reference = alone({in_float8, one});
  EXPECT_NE(reference, alone({in_float8}));
  test::expect_near(reference, model({in_float8}), 1e-2);
  for (const char* how : {"parallel.mode=fsdp", "parallel.mode=ddp", "schedule.recompute=full"})
    EXPECT_EQ(train({in_float8, one, how}), reference) << how;
  for (const char* axis : {"tensor", "context"})
    for (const int size : test::axis_sizes())
      if (size != 3)
        test::expect_near(train({in_float8, one, test::meshes_with(axis, size).front()}),
                          model({in_float8, one}), 1e-2);
}

TEST_F(Float8, ABadWeightIsSeenInTheLoss) {
  weft::train::Trainer trainer(test::shared_deck(world(), model({in_float8, "optimizer.nonfinite=skip"})),
                               world());
  std::vector<float> values(64 * 160, 0.01F);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  trainer.state().set_parameter("layers.1.ffn.w2", values);
  EXPECT_TRUE(std::isnan(trainer.train_step().loss));
}

}  // namespace
}  // namespace weft
