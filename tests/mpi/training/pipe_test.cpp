// Tests pipes: the layers are cut into stages, and no bit of loss, norm and state depends on how.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "base/device.hpp"
#include "base/stage_places.hpp"
#include "ops/cost.hpp"
#include "plan/report.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/pipe_meshes.hpp"
#include "support/reference.hpp"
#include "support/sent_bytes.hpp"
#include "support/shared_deck.hpp"
#include "support/text_of_ranks.hpp"
#include "support/without_memory.hpp"

namespace weft {
namespace {

using Sets = std::vector<std::string>;
using test::Curve;
using test::world;

class Pipe : public testing::Test {
 protected:
  /// One rank has no pipe: a loop over its meshes would test nothing.
  void SetUp() override {
    if (meshes().empty()) GTEST_SKIP() << "needs several ranks";
  }

  static std::vector<std::string> meshes() { return test::pipe_meshes(); }

  /// The curve that all ranks compute together.
  static Curve train(const Sets& sets) {
    weft::train::Trainer trainer(test::shared_deck(world(), sets), world());
    return test::train_steps(trainer, steps);
  }
  /// The curve that one rank computes alone.
  static Curve alone(Sets sets = {}) {
    sets.insert(sets.begin(), {test::unit_buckets, layers()});
    return test::reference(sets, steps);
  }
  static Sets with(std::string mesh, Sets more = {}) {
    more.insert(more.begin(), {test::unit_buckets, layers(), std::move(mesh)});
    return more;
  }

 private:
  static constexpr int steps = 4;
  static std::string layers() { return fmt::format("model.layers={}", test::layers_of_pipe()); }
};

TEST_F(Pipe, EveryScheduleHasTheSameBits) {
  const Curve reference = alone();
  EXPECT_NE(reference.losses.back(), reference.losses.front());
  for (const std::string& mesh : meshes())
    for (const Sets& schedule :
         {Sets{"pipeline.schedule=gpipe"}, Sets{"pipeline.schedule=1f1b"}, Sets{"pipeline.schedule=zb_h1"},
          Sets{"pipeline.schedule=interleaved"}, Sets{"pipeline.schedule=interleaved", "pipeline.chunks=2"},
          Sets{"pipeline.schedule=zbv", "pipeline.chunks=2"}}) {
      SCOPED_TRACE(mesh + testing::PrintToString(schedule));
      EXPECT_EQ(train(with(mesh, schedule)), reference);
    }
}

TEST_F(Pipe, EveryModeHasTheSameBits) {
  const Curve reference = alone();
  for (const std::string& mesh : meshes())
    for (const char* mode : {"ddp", "zero1", "zero2", "fsdp"})
      for (const char* schedule : {"1f1b", "zb_h1"}) {
        if (mesh.find("data = 1,") != std::string::npos && mode != std::string("fsdp"))
          continue;  // all alike
        SCOPED_TRACE(mesh + mode + schedule);
        EXPECT_EQ(train(with(mesh, {std::string("parallel.mode=") + mode,
                                    std::string("pipeline.schedule=") + schedule})),
                  reference);
      }
}

TEST_F(Pipe, NumericsHaveTheSameBits) {
  for (const Sets& numerics :
       {Sets{"precision.params=bf16"}, Sets{"precision.params=bf16", "precision.grad_wire=bf16"},
        Sets{"precision.head_rows=3"}, Sets{"schedule.disable=[\"fuse\", \"head\"]"}}) {
    const Curve reference = alone(numerics);
    for (const std::string& mesh : test::some_pipe_meshes()) {
      SCOPED_TRACE(mesh + testing::PrintToString(numerics));
      EXPECT_EQ(train(with(mesh, numerics)), reference);
    }
  }
}

TEST_F(Pipe, ScheduleLeavesTheBitsAlone) {
  const Curve reference = alone();
  for (const std::string& mesh : test::some_pipe_meshes())
    for (const Sets& sets :
         {Sets{"schedule.bucketing=manual"}, Sets{"schedule.bucketing=auto"},
          Sets{"schedule.bucketing=greedy", "pipeline.schedule=zb_h1"},
          Sets{"schedule.prefetch=4", "schedule.reduce_delay=3"}, Sets{test::without_memory("\"order\"")},
          Sets{"schedule.disable=share"}, Sets{"schedule.disable=[\"rows\", \"residual\"]"},
          Sets{"schedule.recompute=full", "schedule.regather=never"},
          Sets{"schedule.recompute=full", "pipeline.schedule=zb_h1"},
          Sets{"schedule.recompute=full", "pipeline.schedule=zbv", "pipeline.chunks=2"},
          Sets{"parallel.mode=zero1", "pipeline.schedule=zbv", "pipeline.chunks=2"},
          Sets{"schedule.recompute=selective", "schedule.recompute_ops=[\"swiglu\", \"matmul@layers.1.*\"]"},
          Sets{"schedule.regather=never", "pipeline.schedule=interleaved", "pipeline.chunks=2"}}) {
      SCOPED_TRACE(mesh + testing::PrintToString(sets));
      EXPECT_EQ(train(with(mesh, sets)), reference);
    }
}

/// Stages of any lengths, and stages that are nothing but the embedding or the head.
TEST_F(Pipe, LayersMayBeCutAnywhere) {
  if (world().size() > 3) GTEST_SKIP() << "all cuts of a few stages are enough";
  const Curve reference = alone();
  const int layers = test::layers_of_pipe();
  for (int first = 0; first <= layers; ++first) {
    std::vector<int> cut{first, layers - first};
    if (world().size() == 3) cut = {first, 1, layers - first - 1};
    if (cut.back() < 0) continue;
    SCOPED_TRACE(first);
    EXPECT_EQ(train(with("parallel.mesh={ pipe = 0 }",
                         {fmt::format("pipeline.layers=[{}]", fmt::join(cut, ", "))})),
              reference);
  }
}

/// Fifteen sequences are no whole number of rounds.
TEST_F(Pipe, ValidationAndDocumentsHaveTheSameBits) {
  const test::TextOfRanks file;
  const Sets text = file.sets();
  const auto losses = [&](comm::World& ranks, Sets sets) {
    sets.insert(sets.end(), text.begin(), text.end());
    weft::train::Trainer trainer(test::shared_deck(ranks, sets), ranks);
    const double trained = trainer.train_step().loss;
    const auto valid = trainer.validate();
    if (!valid) throw std::logic_error("nothing was validated");
    return std::array{trained, valid->loss, static_cast<double>(valid->tokens)};
  };
  std::array<double, 3> expected{-1e300, -1e300, -1e300};
  if (world().rank() == 0) {
    const auto self = comm::make_self_world();
    expected = losses(*self, with("parallel.mesh={ data = 0 }"));
  }
  world().all_reduce_max(expected);
  EXPECT_EQ(expected[2], 15 * 24);
  for (const std::string& mesh : test::some_pipe_meshes())
    for (const Sets& sets : {Sets{}, Sets{"pipeline.schedule=interleaved", "pipeline.chunks=2"},
                             Sets{"pipeline.schedule=zbv", "pipeline.chunks=2"}})
      EXPECT_EQ(losses(world(), with(mesh, sets)), expected) << mesh << testing::PrintToString(sets);
}

/// Both ends of the pipe have the table, and add up its gradients of whole steps: another order than that of
/// one rank, which adds those of each microbatch. It is the same for all pipes, but for zbv, where both ends
/// are one rank's and it is that of one rank.
TEST_F(Pipe, TiedEmbeddingsAreOneTable) {
  const Sets tied{"model.tie_embeddings=true"};
  // The head then has no unit of its own, because its norm is in that of all norms.
  const Sets in_bf16{tied.front(), "precision.params=bf16"};
  const Curve in_bf16_alone = alone(in_bf16);
  for (const std::string& mesh : test::some_pipe_meshes())
    EXPECT_NEAR(train(with(mesh, in_bf16)).losses.back() / in_bf16_alone.losses.back(), 1, 1e-4) << mesh;
  const Curve reference = alone(tied);
  std::optional<Curve> first;
  for (const std::string& mesh : test::some_pipe_meshes())
    for (Sets sets : {Sets{}, Sets{"pipeline.schedule=interleaved", "pipeline.chunks=2"},
                      Sets{"parallel.mode=zero1", "pipeline.schedule=zb_h1"}, Sets{"parallel.mode=ddp"},
                      Sets{"schedule.bucketing=manual", "schedule.recompute=full"}}) {
      SCOPED_TRACE(mesh + testing::PrintToString(sets));
      sets.push_back(tied.front());
      const Curve curve = train(with(mesh, sets));
      if (!first) first = curve;
      EXPECT_EQ(curve, *first);
    }
  for (const std::string& mesh : test::some_pipe_meshes())
    for (const char* mode : {"parallel.mode=fsdp", "parallel.mode=ddp"})
      EXPECT_EQ(train(with(mesh, {"pipeline.schedule=zbv", "pipeline.chunks=2", mode, tied.front()})),
                reference)
          << mesh << mode;
  EXPECT_EQ(first->losses.front(), reference.losses.front());
  for (std::size_t i = 0; i < reference.losses.size(); ++i) {
    EXPECT_NEAR(first->losses[i] / reference.losses[i], 1, 1e-5);
    // AdamW makes more of the last digits from step to step, and more on a device than on the host.
    const double most = i == 0 ? 1e-6 : device_is_host() ? 1e-5 : 3e-5;
    EXPECT_NEAR(first->norms[i] / reference.norms[i], 1, most);
  }
}

/// Stages take different amounts of memory: a line of metrics has the largest.
TEST_F(Pipe, MetricsHaveTheLargestPlan) {
  for (const std::string& mesh : meshes()) {
    weft::train::Trainer trainer(test::shared_deck(world(), with(mesh)), world());
    const report::StepMetrics m = trainer.train_step();
    std::array<double, 2> most{static_cast<double>(trainer.plan().peak_bytes()),
                               static_cast<double>(plan::persistent_bytes(trainer.plan()))};
    world().all_reduce_max(most);
    EXPECT_EQ(static_cast<double>(m.arena_peak_bytes), most[0]) << mesh;
    EXPECT_GE(static_cast<double>(m.persistent_bytes), most[1]) << mesh;
  }
}

/// What a step sends: activations and gradients over each border of two ranks' stages, once a microbatch; and
/// the losses, which are gathered, and the sum of squares, which is so short that each rank sends it whole to
/// every other.
TEST_F(Pipe, SendsWhatTheFormulaSays) {
  const int pipe = world().size();
  for (const auto& [schedule, chunks] :
       {std::pair(PipelineKind::one_f_one_b, 1), std::pair(PipelineKind::zb_h1, 1),
        std::pair(PipelineKind::interleaved, 2), std::pair(PipelineKind::zbv, 2)}) {
    SCOPED_TRACE(name_of(schedule));
    const Deck deck = test::shared_deck(world(), with(fmt::format("parallel.mesh={{ pipe = {} }}", pipe),
                                                      {fmt::format("pipeline.schedule={}", name_of(schedule)),
                                                       fmt::format("pipeline.chunks={}", chunks)}));
    weft::train::Trainer trainer(deck, world());
    trainer.train_step();
    const StagePlaces places{pipe, folds(schedule)};
    const int stages = pipe * chunks;
    const auto other = [&](int stage) {
      return stage >= 0 && stage < stages && places.place(stage) != world().rank() ? 1 : 0;
    };
    std::int64_t borders = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int stage = places.stage(world().rank(), chunk);
      borders += other(stage - 1) + other(stage + 1);
    }
    const std::int64_t message = deck.data.batch * deck.data.seq * deck.model.dim * 4;
    std::int64_t sums = 0;
    const ir::Graph& graph = trainer.plan().graph;
    for (const ir::Node& node : graph.nodes())
      if (ir::is_collective(node.op))
        sums += node.op == ir::Op::all_reduce
                    ? test::short_all_reduce_bytes(graph.local_bytes(node.outputs[0]), pipe)
                    : ops::wire_bytes(graph, node);
    std::array<double, 1> most{static_cast<double>(accumulation(deck, 1) * borders * message + sums)};
    world().all_reduce_max(most);
    EXPECT_EQ(static_cast<double>(*trainer.train_step().sent_bytes), most[0]);
  }
}

/// What a mesh saves, any other loads.
TEST_F(Pipe, CheckpointsLoadOnAnyMesh) {
  Sets layouts = meshes();
  layouts.emplace_back("parallel.mesh={ data = 0 }");
  for (std::size_t m = 0; m < layouts.size(); ++m) {
    SCOPED_TRACE(layouts[m]);
    const std::string tied = fmt::format("model.tie_embeddings={}", m % 2 == 1);
    const Sets sets = with(layouts[m], {"run.steps=2", "checkpoint.final=true", tied});
    const Deck deck = test::shared_deck(world(), sets);
    std::uint64_t hash = 0;
    {
      weft::train::Trainer trainer(deck, world());
      trainer.run();
      hash = trainer.state().hash();
    }
    const std::string resume = "checkpoint.resume=" + deck.run.dir + "/checkpoints/step-00000002";
    const auto next = [&](const std::string& layout, comm::World& ranks) {
      weft::train::Trainer trainer(test::shared_deck(ranks, with(layout, {resume, tied})), ranks);
      EXPECT_EQ(trainer.state().hash(), hash);
      return trainer.train_step().loss;
    };
    std::array<double, 1> expected{-1e300};
    if (world().rank() == 0) {
      const auto self = comm::make_self_world();
      expected[0] = next("parallel.mesh={ data = 0 }", *self);
    }
    world().all_reduce_max(expected);
    for (const std::string& other : layouts) EXPECT_EQ(next(other, world()), expected[0]) << other;
    if (world().rank() == 0) std::filesystem::remove_all(deck.run.dir);
    world().barrier();
  }
}

}  // namespace
}  // namespace weft
