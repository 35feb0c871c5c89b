// Tests the hashes of a step's values: they depend on neither ranks, mode nor schedule, name the module where
// two runs part, and leave the run alone.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "compare/compare_hashes.hpp"
#include "support/curve.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/pipe_meshes.hpp"
#include "support/shared_deck.hpp"

namespace weft {
namespace {

using Steps = std::vector<compare::StepHashes>;
using Change = std::function<void(runtime::ModelState&)>;

/// The hashes.jsonl of two steps; empty where rank 0 is another process.
Steps hashes(std::vector<std::string> sets, comm::World& world, const Change& change = {}) {
  sets.insert(sets.begin(), {"debug.hash_every=1", test::unit_buckets});
  const Deck deck = test::shared_deck(world, sets);
  train::Trainer trainer(deck, world);
  if (change) {
    change(trainer.state());
    trainer.state().publish();
  }
  test::train_steps(trainer, 2);
  return world.rank() == 0 ? compare::read_hashes(deck.run.dir + "/hashes.jsonl") : Steps{};
}

/// What one rank alone writes: rank 0 computes it, and it is what rank 0 compares.
Steps alone(const std::vector<std::string>& sets, const Change& change = {}) {
  if (test::world().rank() != 0) return {};
  const auto self = comm::make_self_world();
  return hashes(sets, *self, change);
}

/// On rank 0: equal, value by value, and there is no value that only one of the two has.
void expect_equal(const Steps& a, const Steps& b) {
  if (test::world().rank() != 0) return;
  const compare::Comparison c = compare::compare_hashes(a, b);
  EXPECT_EQ(c.steps, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(c.only_in_a, 0U);
  EXPECT_EQ(c.only_in_b, 0U);
  EXPECT_FALSE(c.parting) << "step " << c.parting->step << ": " << c.parting->in_a.value << " made by "
                          << c.parting->in_b.op << ", " << c.parting->differing_after << " more";
}

/// The hash of what the first step begins with, by name; empty when there is no such value.
std::string hash_of(const Steps& steps, const std::string& state) {
  for (const compare::ValueHash& value : steps.front().values)
    if (value.op == "state" && value.value == state) return value.hash;
  return {};
}

class Hashes : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Hashes, DoNotDependOnRanksOrMode) {
  const Steps reference = alone(GetParam());
  ASSERT_EQ(reference.size(), test::world().rank() == 0 ? 2U : 0U);
  for (const char* mode : {"ddp", "zero1", "zero2", "fsdp"}) {
    SCOPED_TRACE(mode);
    std::vector<std::string> sets = GetParam();
    sets.push_back(std::string("parallel.mode=") + mode);
    expect_equal(reference, hashes(sets, test::world()));
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, Hashes,
                         ::testing::Values(std::vector<std::string>{},
                                           std::vector<std::string>{"precision.params=bf16",
                                                                    "precision.grad_wire=bf16"},
                                           std::vector<std::string>{"model.tie_embeddings=true"}));

TEST(Hashes, DoNotDependOnTheSchedule) {
  const Steps reference = alone({});
  for (const char* set :
       {"schedule.prefetch=4", "schedule.regather=never", "schedule.disable=[\"order\", \"memory\"]"}) {
    SCOPED_TRACE(set);
    expect_equal(reference, hashes({set}, test::world()));
  }
}

/// Sets a feed-forward's w2 to 0.01, and its last element to `last`.
auto last_weight_of(const char* w2, float last) {
  return [w2, last](runtime::ModelState& state) {
    std::vector<float> weights(64 * 176, 0.01F);
    weights.back() = last;
    state.set_parameter(w2, weights);
  };
}

/// Each element counts, wherever it stands: here the last one of a unit, which the last rank has.
TEST(Hashes, NameTheParameterOfOneChangedWeight) {
  const Steps reference = alone({}, last_weight_of("layers.1.ffn.w2", 0.01F));
  for (const char* mode : {"ddp", "fsdp"}) {
    const Steps changed = hashes({std::string("parallel.mode=") + mode}, test::world(),
                                 last_weight_of("layers.1.ffn.w2", 0.02F));
    if (test::world().rank() != 0) continue;
    const compare::Comparison c = compare::compare_hashes(reference, changed);
    ASSERT_TRUE(c.parting);
    EXPECT_EQ(c.parting->step, 1);
    EXPECT_EQ(c.parting->in_a.value, "master.layers.1.ffn.w2");
    EXPECT_EQ(c.parting->in_a.module, "layers.1.ffn");
  }
}

/// Norms that are read as fp32 are in another unit, and yet their runs begin alike. Norms begin at 1, which
/// bf16 has, too. What reads them parts first: the kernels' sums are in another order at the earliest.
TEST(Hashes, NormsInAnotherTypePartWhereTheyAreRead) {
  const std::vector<std::string> bf16{"precision.params=bf16"};
  const Steps f32_norms = alone(bf16);
  const Steps rounded = hashes({"precision.params=bf16", "precision.norms=bf16"}, test::world());
  if (test::world().rank() != 0) return;
  const compare::Comparison c = compare::compare_hashes(f32_norms, rounded);
  ASSERT_TRUE(c.parting);
  EXPECT_EQ(c.parting->in_a.op, c.parting->step == 1 ? "rms_norm_grad" : "rms_norm");
}

/// One rank has no pipe: a loop over its meshes would test nothing.
class HashesOfPipes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::pipe_meshes().empty()) GTEST_SKIP() << "needs several ranks";
  }
};

std::vector<std::string> with_layers(std::vector<std::string> sets) {
  sets.push_back("model.layers=" + std::to_string(test::layers_of_pipe()));
  return sets;
}

/// Meshes with as many ranks on the tensor axis have the same values, wherever the others are.
TEST(HashesOfTensorMeshes, DependOnTheTensorAxisOnly) {
  if (test::world().size() % 4 != 0) GTEST_SKIP() << "needs other axes beside a tensor axis of two";
  const int others = test::world().size() / 2;
  const auto hashed = [&](const char* axis, const char* mode) {
    return hashes(with_layers({fmt::format("parallel.mesh={{ {} = {}, tensor = 2 }}", axis, others),
                               std::string("parallel.mode=") + mode}),
                  test::world());
  };
  const Steps reference = hashed("data", "fsdp");
  expect_equal(reference, hashed("data", "ddp"));
  expect_equal(reference, hashed("pipe", "fsdp"));
}

/// Such an axis changes what a rank makes, and the order of sums, but not what the step begins with. There
/// are two sequences in a microbatch, of which a rank of a context axis has two sections each.
TEST(HashesOfCutAxes, BeginWithTheSameData) {
  if (test::world().size() % 2 != 0) GTEST_SKIP() << "needs an axis of two";
  const std::vector<std::string> two{"data.batch=2"};
  const Steps reference = alone(two), others = alone({"data.batch=2", "run.seed=8"});
  std::vector<std::string> meshes{"data = 0, context = 2", "data = 0, tensor = 2"};
  if (test::world().size() == 4)
    meshes.insert(meshes.end(), {"context = 2, tensor = 2", "pipe = 2, context = 2"});
  for (const std::string& mesh : meshes) {
    SCOPED_TRACE(mesh);
    const Steps cut = hashes({"data.batch=2", "parallel.mesh={ " + mesh + " }"}, test::world());
    if (test::world().rank() != 0) continue;
    const compare::Comparison c = compare::compare_hashes(reference, cut);
    EXPECT_FALSE(c.cut_alike);
    EXPECT_GT(c.steps.size(), 0U);
    if (c.parting) {
      EXPECT_NE(c.parting->in_a.op, "state") << c.parting->in_a.value;
    }
    for (const char* input : {"tokens", "targets", "positions"}) {
      EXPECT_EQ(hash_of(cut, input), hash_of(reference, input)) << input;
      EXPECT_EQ(hash_of(cut, input).size(), 16U) << input;
    }
    const compare::Comparison d = compare::compare_hashes(others, cut);
    EXPECT_TRUE(d.parting && d.parting->step == 1 && d.parting->in_a.value == "tokens");
  }
}

using Names = std::vector<std::pair<std::string, std::string>>;

/// Phase and name of what a step's kernels make, in order. States are left out: several stages have those
/// that are no unit's, and each has them before it reads them.
Names made(const Steps& steps) {
  Names names;
  if (steps.empty()) return names;
  for (const compare::ValueHash& value : steps.front().values)
    if (value.op != "state") names.emplace_back(value.phase, value.value);
  return names;
}

TEST_F(HashesOfPipes, AreThoseOfOneRankInItsOrder) {
  using Sets = std::vector<std::string>;
  const Sets bf16{"precision.params=bf16", "precision.grad_wire=bf16", "precision.norms=bf16"};
  const Sets f32_norms{"precision.params=bf16"};
  const Sets apart{"schedule.disable=[\"fuse\", \"head\", \"residual\"]"};
  const Sets chunks{"pipeline.schedule=interleaved", "pipeline.chunks=2"};
  const Sets float8{"precision.params=bf16", "precision.grad_wire=bf16", "precision.float8=[\"layers.*\"]"};
  for (const auto& [numerics, layout] :
       {std::pair(Sets{}, Sets{"pipeline.schedule=gpipe", "parallel.mode=ddp"}), std::pair(Sets{}, chunks),
        std::pair(bf16, chunks), std::pair(f32_norms, chunks), std::pair(apart, Sets{"parallel.mode=zero2"}),
        std::pair(float8, Sets{})}) {
    const Steps reference = alone(with_layers(numerics));
    for (const std::string& mesh : test::some_pipe_meshes()) {
      SCOPED_TRACE(mesh + testing::PrintToString(layout) + testing::PrintToString(numerics));
      Sets sets = with_layers(numerics);
      sets.push_back(mesh);
      sets.insert(sets.end(), layout.begin(), layout.end());
      const Steps hashed = hashes(sets, test::world());
      expect_equal(reference, hashed);
      // The norms are one unit there, whose gradient each stage completes at another place.
      if (numerics == float8 || numerics == f32_norms) continue;
      const Names expected = made(reference), found = made(hashed);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i]) << "value " << i;
    }
  }
}

/// A schedule may put weight gradients off, and compute again what other schedules keep.
TEST_F(HashesOfPipes, DoNotDependOnTheSchedule) {
  for (const std::string recompute : {"none", "full"}) {
    const std::string set = "schedule.recompute=" + recompute;
    const Steps reference = alone(with_layers({set}));
    for (const std::string& mesh : test::some_pipe_meshes()) {
      SCOPED_TRACE(mesh + set);
      expect_equal(reference, hashes(with_layers({set, mesh, "pipeline.schedule=zb_h1"}), test::world()));
      expect_equal(reference, hashes(with_layers({set, mesh, "pipeline.schedule=zbv", "pipeline.chunks=2"}),
                                     test::world()));
    }
  }
}

/// Both ends of a pipe have the table, and add up its gradients in another order than one rank does: what
/// parts first is that sum. It is the same for all pipes.
TEST_F(HashesOfPipes, PartAtTheGradientOfTiedEmbeddings) {
  const std::vector<std::string> tied = with_layers({"model.tie_embeddings=true"});
  const Steps reference = alone(tied);
  Steps first;
  for (const std::string& mesh : test::pipe_meshes())
    for (const char* set : {"pipeline.schedule=1f1b", "parallel.mode=ddp"}) {
      SCOPED_TRACE(mesh + set);
      std::vector<std::string> sets = tied;
      sets.insert(sets.end(), {mesh, set});
      const Steps hashed = hashes(sets, test::world());
      if (first.empty()) first = hashed;
      expect_equal(first, hashed);
      if (test::world().rank() != 0) continue;
      const compare::Comparison c = compare::compare_hashes(reference, hashed);
      ASSERT_TRUE(c.parting);
      EXPECT_EQ(c.parting->step, 1);
      EXPECT_EQ(c.parting->in_a.value, "embed.table.sum");
      EXPECT_EQ(c.parting->in_a.phase, "backward");
      EXPECT_EQ(c.only_in_b, 0U);
    }
}

/// The parting is named whichever run is the first, and it is the first in the program of one rank: the stage
/// behind the changed one makes other values, too.
TEST_F(HashesOfPipes, NameTheParameterOfOneChangedWeight) {
  const Steps reference = alone(with_layers({}), last_weight_of("layers.3.ffn.w2", 0.01F));
  for (const std::string& mesh : test::some_pipe_meshes()) {
    SCOPED_TRACE(mesh);
    const Steps changed =
        hashes(with_layers({mesh}), test::world(), last_weight_of("layers.3.ffn.w2", 0.02F));
    if (test::world().rank() != 0) continue;
    for (const auto& c :
         {compare::compare_hashes(reference, changed), compare::compare_hashes(changed, reference)}) {
      ASSERT_TRUE(c.parting);
      EXPECT_EQ(c.parting->step, 1);
      EXPECT_EQ(c.parting->in_a.value, "master.layers.3.ffn.w2");
      EXPECT_EQ(c.parting->in_a.module, "layers.3.ffn");
    }
  }
}

TEST(Hashes, LeaveTheBitsAlone) {
  const auto curve = [](const char* set) {
    train::Trainer trainer(test::shared_deck(test::world(), {test::unit_buckets, set}), test::world());
    return test::train_steps(trainer, 4);
  };
  const test::Curve without = curve("debug.hash_every=0");
  EXPECT_EQ(without, curve("debug.hash_every=1"));
  EXPECT_EQ(without, curve("debug.hash_every=3"));
}

}  // namespace
}  // namespace weft
