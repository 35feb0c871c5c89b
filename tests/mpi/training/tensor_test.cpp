// Tests the tensor axis: the matrices of each layer are cut over it, and losses, norms and state depend on
// nothing else than its size.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>

#include "ckpt/load.hpp"
#include "compile/programs.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/reference.hpp"
#include "support/shared_deck.hpp"
#include "support/text_of_ranks.hpp"
#include "train/checkpointing.hpp"

namespace weft {
namespace {

using Sets = std::vector<std::string>;
using test::Curve;
using test::world;

constexpr int steps = 3;

/// The small deck has two heads of keys and values. Other numbers of them are tested for the axes of two and
/// four ranks: more heads than ranks, one each, and fewer.
Sets model(int kv_heads) {
  return {test::unit_buckets,
          "optimizer.lr=1e-3",
          "model.layers=3",
          "model.heads=12",
          "model.dim=96",
          "model.ffn=192",
          fmt::format("model.kv_heads={}", kv_heads)};
}

/// The meshes with a tensor axis of `tensor` ranks over the ranks of this program, in several orders.
Sets meshes_of(int tensor) {
  Sets list;
  const int rest = world().size() / tensor;
  for (int pipe = 1; pipe <= rest; ++pipe) {
    if (rest % pipe != 0) continue;
    const int data = rest / pipe;
    list.push_back(fmt::format("parallel.mesh={{ pipe = {}, data = {}, tensor = {} }}", pipe, data, tensor));
    if (data * pipe > 1)
      list.push_back(
          fmt::format("parallel.mesh={{ tensor = {}, data = {}, pipe = {} }}", tensor, data, pipe));
  }
  return list;
}

/// The sizes of a tensor axis over the ranks of this program.
std::vector<int> sizes() {
  std::vector<int> list;
  for (int tensor = 2; tensor <= world().size(); ++tensor)
    if (world().size() % tensor == 0) list.push_back(tensor);
  return list;
}

/// Whether ranks of the axis have whole heads of keys and values.
bool fit(int kv_heads, int tensor) {
  return kv_heads % tensor == 0 || tensor % kv_heads == 0;
}

class Tensor : public testing::Test {
 protected:
  void SetUp() override {
    if (world().size() == 1) GTEST_SKIP() << "needs several ranks";
  }
  static Sets with(int kv_heads, const std::string& mesh, const Sets& more = {}) {
    Sets sets = model(kv_heads);
    sets.push_back(mesh);
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
  }
  static Curve train(const Sets& sets) {
    weft::train::Trainer trainer(test::shared_deck(world(), sets), world());
    return test::train_steps(trainer, steps);
  }
  /// Compares with what one rank computes alone, of which the tensor axis changes the last digits. AdamW
  /// makes more of them from step to step, because it divides by the size of a gradient.
  static void expect_near(const Curve& curve, const Sets& alone, double most) {
    const Curve& reference = test::reference(alone, steps);
    EXPECT_NEAR(curve.norms[0] / reference.norms[0], 1, 10 * most);
    for (std::size_t i = 0; i < reference.losses.size(); ++i) {
      EXPECT_NEAR(curve.losses[i] / reference.losses[i], 1, most) << "step " << i;
      EXPECT_NEAR(curve.norms[i] / reference.norms[i], 1, 100 * most) << "step " << i;
    }
    EXPECT_EQ(curve.tokens, reference.tokens);
  }
  static std::uint64_t initial_hash(comm::World& ranks, const Sets& sets) {
    return weft::train::Trainer(test::shared_deck(ranks, sets), ranks).state().hash();
  }
};

/// Every mesh has the plain schedule and some of the others, in turn.
TEST_F(Tensor, MeshesModesAndSchedulesHaveTheBitsOfTheAxisSize) {
  const std::vector<Sets> others{
      {"parallel.mode=ddp"},
      {"parallel.mode=zero1", "pipeline.schedule=zb_h1"},
      {"schedule.recompute=full", "pipeline.schedule=interleaved"},
      {"parallel.mode=zero2", "schedule.recompute=full"},
      {"schedule.bucketing=auto"},
      {"schedule.bucketing=manual", "schedule.regather=never"},
      {"schedule.disable=[\"share\", \"rows\", \"order\", \"memory\"]"},
      {"schedule.recompute=selective", "schedule.recompute_ops=[\"all_gather\", \"swiglu\"]"}};
  for (const int tensor : sizes()) {
    const Sets meshes = meshes_of(tensor);
    const Curve first = train(with(12, meshes.front()));
    expect_near(first, model(12), 1e-6);
    for (std::size_t m = 0; m < meshes.size(); ++m) {
      EXPECT_EQ(train(with(12, meshes[m])), first) << meshes[m];
      for (std::size_t i = m; i < others.size(); i += meshes.size())
        EXPECT_EQ(train(with(12, meshes[m], others[i])), first)
            << meshes[m] << testing::PrintToString(others[i]);
    }
  }
}

/// Where a model has fewer heads of keys and values than the axis has ranks, neighbouring ranks have copies
/// of the same head.
TEST_F(Tensor, HeadsOfKeysAndValuesMayBeFewerThanRanks) {
  for (const int tensor : sizes())
    for (const int kv_heads : {1, 2, 3, 4, 6}) {
      Sets meshes = meshes_of(tensor);
      if (meshes.size() > 2) meshes = {meshes.front(), meshes.back()};  // with the data axis, and with a pipe
      if (!fit(kv_heads, tensor)) {
        EXPECT_THROW(train(with(kv_heads, meshes.front())), Error);
        continue;
      }
      std::optional<Curve> first;
      for (const std::string& mesh : meshes) {
        SCOPED_TRACE(mesh + fmt::format("{} heads", kv_heads));
        const Curve curve = train(with(kv_heads, mesh));
        if (!first) first = curve;
        EXPECT_EQ(curve, *first);
      }
      expect_near(*first, model(kv_heads), 1e-6);
    }
}

TEST_F(Tensor, NumericsAreThoseOfOneRank) {
  const Sets numerics[] = {{"schedule.disable=[\"fuse\", \"residual\"]"},
                           {"optimizer.clip=0"},
                           {"data.batch=3"},
                           {"precision.params=bf16"},
                           {"precision.params=bf16", "precision.grad_wire=bf16"}};
  for (const int tensor : sizes())
    for (const Sets& sets : numerics) {
      std::optional<Curve> first;
      for (const std::string& mesh : meshes_of(tensor)) {
        if (sets.front() == "data.batch=3" && mesh.find("data = 1") == std::string::npos) continue;
        SCOPED_TRACE(mesh + testing::PrintToString(sets));
        const Curve curve = train(with(12, mesh, sets));
        if (!first) first = curve;
        EXPECT_EQ(curve, *first);
      }
      Sets alone = model(12);
      alone.insert(alone.end(), sets.begin(), sets.end());
      expect_near(*first, alone, sets.front() == "precision.params=bf16" ? 2e-3 : 1e-6);
    }
}

TEST_F(Tensor, TiedEmbeddingsAreOneTable) {
  const Sets tied{"model.tie_embeddings=true"};
  for (const int tensor : sizes()) {
    std::map<bool, Curve> first;  // a pipe adds the table's gradients in another order
    for (const std::string& mesh : meshes_of(tensor)) {
      SCOPED_TRACE(mesh);
      const Curve curve = train(with(12, mesh, tied));
      EXPECT_EQ(curve, first.emplace(mesh.find("pipe = 1") == std::string::npos, curve).first->second);
      Sets alone = model(12);
      alone.push_back(tied.front());
      expect_near(curve, alone, 1e-6);
    }
  }
}

/// Gradients, by the first moments that one step leaves.
TEST_F(Tensor, GradientsAreThoseOfOneRank) {
  const Sets one_step{"run.steps=1", "checkpoint.final=true", "optimizer.warmup=0", "optimizer.clip=0"};
  const auto moments = [&](comm::World& ranks, const Sets& sets) {
    const Deck deck = test::shared_deck(ranks, sets);
    weft::train::Trainer(deck, ranks).run();
    std::map<std::string, std::vector<float>> all;
    const std::string checkpoint = deck.run.dir + "/checkpoints/step-00000001";
    if (ranks.rank() == 0) {
      const auto self = comm::make_self_world();
      const ckpt::Hooks hooks = weft::train::hooks_of(*self);
      const ckpt::Manifest manifest = ckpt::read_manifest(checkpoint, hooks);
      std::vector<ckpt::StateSlice> slices;
      const std::vector<Unit> units = ckpt::stored_units(model::units(compile::spec_of(deck)));
      for (const Unit& unit : units) {
        auto& values = all[unit.path];
        values.resize(static_cast<std::size_t>(unit.elements));
        ckpt::StateSlice slice;
        slice.unit = unit.path;
        slice.role = ckpt::Role::exp_avg;
        slice.unit_elements = slice.count = unit.elements;
        slice.data = reinterpret_cast<std::byte*>(values.data());
        slices.push_back(slice);
      }
      ckpt::load(manifest, units, slices, hooks, {});
      std::filesystem::remove_all(deck.run.dir);
    }
    ranks.barrier();
    return all;
  };
  std::map<std::string, std::vector<float>> expected;
  if (world().rank() == 0) {
    const auto self = comm::make_self_world();
    expected = moments(*self, with(1, "parallel.mesh={ data = 0 }", one_step));
  }
  world().barrier();
  for (const int tensor : sizes())
    for (const std::string& mesh : meshes_of(tensor)) {
      const auto own = moments(world(), with(1, mesh, one_step));
      for (const auto& [path, values] : own) {
        double difference = 0, norm = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double e = expected.at(path)[i];
          difference += (values[i] - e) * (values[i] - e);
          norm += e * e;
        }
        EXPECT_GT(norm, 0) << path;
        EXPECT_LE(std::sqrt(difference / norm), 1e-5) << path << " " << mesh;
      }
    }
}

/// A run starts from the same weights on any mesh, and what one saves others load: the data axis alone, and
/// the next mesh. perf/checkpoints.py reshard has more pairs.
TEST_F(Tensor, CheckpointsLoadOnAnyMesh) {
  for (const int kv_heads : {1, 2}) {
    Sets layouts{"parallel.mesh={ data = 0 }"};
    for (const int tensor : sizes())
      if (fit(kv_heads, tensor))
        for (const std::string& mesh : meshes_of(tensor)) layouts.push_back(mesh);
    std::array<std::uint64_t, 1> initial{0};
    if (world().rank() == 0) {
      const auto self = comm::make_self_world();
      initial[0] = initial_hash(*self, with(kv_heads, layouts[0]));
    }
    world().all_reduce_sum(initial);
    for (const std::string& layout : layouts)
      EXPECT_EQ(initial_hash(world(), with(kv_heads, layout)), initial[0]) << layout;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const std::string& layout = layouts[i];
      SCOPED_TRACE(layout);
      const Deck deck =
          test::shared_deck(world(), with(kv_heads, layout, {"run.steps=2", "checkpoint.final=true"}));
      std::uint64_t hash = 0;
      {
        weft::train::Trainer trainer(deck, world());
        trainer.run();
        hash = trainer.state().hash();
      }
      const std::string resume = "checkpoint.resume=" + deck.run.dir + "/checkpoints/step-00000002";
      for (const std::string& other : {layouts.front(), layouts[(i + 1) % layouts.size()]})
        EXPECT_EQ(initial_hash(world(), with(kv_heads, other, {resume})), hash) << other;
      world().barrier();
      if (world().rank() == 0) std::filesystem::remove_all(deck.run.dir);
      world().barrier();
    }
  }
}

TEST_F(Tensor, ValidationAndDocumentsAreThoseOfOneRank) {
  const test::TextOfRanks file;
  const Sets text = file.sets();
  const auto losses = [&](comm::World& ranks, const std::string& mesh) {
    weft::train::Trainer trainer(test::shared_deck(ranks, with(12, mesh, text)), ranks);
    const double trained = trainer.train_step().loss;
    const auto valid = trainer.validate();
    if (!valid) throw std::logic_error("nothing was validated");
    return std::array{trained, valid->loss, static_cast<double>(valid->tokens)};
  };
  std::array<double, 3> expected{-1e300, -1e300, -1e300};
  if (world().rank() == 0) {
    const auto self = comm::make_self_world();
    expected = losses(*self, "parallel.mesh={ data = 0 }");
  }
  world().all_reduce_max(expected);
  for (const int tensor : sizes())
    for (const std::string& mesh : meshes_of(tensor)) {
      const auto own = losses(world(), mesh);
      for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(own[i] / expected[i], 1, 1e-6) << mesh;
      EXPECT_EQ(own[2], expected[2]) << mesh;
    }
}

/// What goes over the axis in a step: activations, by the number of blocks; three numbers a token; the norms'
/// gradients, and the sum of squares. On one host only the last two are messages.
TEST_F(Tensor, SendsWhatTheFormulaSays) {
  const int tensor = world().size();
  for (const bool shared : {true, false}) {
    const Deck deck =
        test::shared_deck(world(), with(12, fmt::format("parallel.mesh={{ tensor = {} }}", tensor),
                                        {shared ? "schedule.disable=[]" : "schedule.disable=[\"share\"]"}));
    weft::train::Trainer trainer(deck, world());
    trainer.train_step();
    const std::int64_t tokens = deck.data.batch * deck.data.seq, rounds = accumulation(deck, 1),
                       others = tensor - 1;
    // Forward and backward of the embedding and the head have one each, and those of a block four.
    const std::int64_t activations =
        (4 + 8 * deck.model.layers) * tokens * deck.model.dim * 4 / tensor * others;
    const std::int64_t statistics = tokens * 3 * 4 * others;
    std::int64_t update = 0;
    for (const ir::Node& node : trainer.plan().graph.nodes())
      if (node.op == ir::Op::all_reduce) {
        const std::int64_t bytes = trainer.plan().graph.local_bytes(node.outputs[0]);
        const bool unit = trainer.plan().graph.value(node.outputs[0]).unit.valid();
        update += unit ? 2 * bytes / tensor * others : bytes * others;
      }
    EXPECT_EQ(trainer.train_step().sent_bytes, (shared ? 0 : rounds * (activations + statistics)) + update);
  }
}

}  // namespace
}  // namespace weft
