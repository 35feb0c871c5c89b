// Tests the tensor axis: the matrices of each layer are cut over it, and losses, norms and state depend on
// nothing else than its size.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/device.hpp"
#include "mpi/training/cut_axis.hpp"
#include "support/kokkos_environment.hpp"
#include "support/sent_bytes.hpp"
#include "support/shared_deck.hpp"
#include "support/without_memory.hpp"

namespace weft {
namespace {

using Sets = std::vector<std::string>;
using test::axis_sizes;
using test::Curve;
using test::expect_bf16_gradients_near;
using test::expect_checkpoints_load;
using test::expect_gradients_near;
using test::expect_near;
using test::expect_text_near;
using test::meshes_with;
using test::world;

constexpr int steps = 3;

/// The small deck has two heads of keys and values. Other numbers of them are tested for the axes of two and
/// four ranks: more heads than ranks, one each, and fewer. Eight ranks (by hand) divide none of the usual
/// sizes.
Sets model(int kv_heads) {
  const bool eight = world().size() == 8;
  return {test::unit_buckets,
          "optimizer.lr=1e-3",
          "model.layers=3",
          eight ? "model.heads=24" : "model.heads=12",
          eight ? "model.vocab=304" : "model.vocab=300",
          "model.dim=96",
          "model.ffn=192",
          fmt::format("model.kv_heads={}", kv_heads)};
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
};

/// Every mesh has the plain schedule and some of the others, in turn.
TEST_F(Tensor, MeshesModesAndSchedulesHaveTheBitsOfTheAxisSize) {
  const std::vector<Sets> others{
      {"parallel.mode=ddp"},
      {"parallel.mode=zero1", "pipeline.schedule=zb_h1"},
      {"schedule.recompute=full", "pipeline.schedule=interleaved"},
      {"parallel.mode=zero2", "schedule.recompute=full"},
      {"schedule.alternate=always"},
      {"schedule.alternate=always", "schedule.recompute=full", "parallel.mode=zero1"},
      {"schedule.alternate=always", "schedule.bucketing=auto"},
      {"schedule.disable=[\"hoist\"]"},
      {"schedule.bucketing=auto"},
      {"schedule.bucketing=manual", "schedule.regather=never"},
      {test::without_memory("\"share\", \"rows\", \"order\"")},
      {"schedule.recompute=selective", "schedule.recompute_ops=[\"all_gather\", \"swiglu\"]"}};
  for (const int tensor : axis_sizes()) {
    const Sets meshes = meshes_with("tensor", tensor);
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
  for (const int tensor : axis_sizes())
    for (const int kv_heads : {1, 2, 3, 4, 6}) {
      Sets meshes = meshes_with("tensor", tensor);
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
  for (const int tensor : axis_sizes())
    for (const Sets& sets : numerics) {
      std::optional<Curve> first;
      for (const std::string& mesh : meshes_with("tensor", tensor)) {
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
  for (const int tensor : axis_sizes()) {
    std::map<bool, Curve> first;  // a pipe adds the table's gradients in another order
    for (const std::string& mesh : meshes_with("tensor", tensor)) {
      SCOPED_TRACE(mesh);
      const Curve curve = train(with(12, mesh, tied));
      EXPECT_EQ(curve, first.emplace(mesh.find("pipe = 1") == std::string::npos, curve).first->second);
      Sets alone = model(12);
      alone.push_back(tied.front());
      expect_near(curve, alone, 1e-6);
    }
  }
}

TEST_F(Tensor, GradientsAreThoseOfOneRank) {
  for (const int tensor : axis_sizes()) expect_gradients_near(model(1), meshes_with("tensor", tensor), 1e-5);
}

TEST_F(Tensor, NumericsOfBf16LeaveGradientsNear) {
  Sets meshes;
  for (const int tensor : axis_sizes()) meshes.push_back(meshes_with("tensor", tensor).front());
  expect_bf16_gradients_near(model(1), meshes);
}

TEST_F(Tensor, CheckpointsLoadOnAnyMesh) {
  for (const int kv_heads : {1, 2}) {
    Sets layouts{"parallel.mesh={ data = 0 }"};
    for (const int tensor : axis_sizes())
      if (fit(kv_heads, tensor))
        for (const std::string& mesh : meshes_with("tensor", tensor)) layouts.push_back(mesh);
    expect_checkpoints_load(model(kv_heads), layouts);
  }
}

TEST_F(Tensor, ValidationAndDocumentsAreThoseOfOneRank) {
  for (const int tensor : axis_sizes()) expect_text_near(model(12), meshes_with("tensor", tensor));
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
        update += unit ? 2 * bytes / tensor * others : test::short_all_reduce_bytes(bytes, tensor);
      }
    const bool reads = shared && device_is_host();  // GPUs send even within a host
    EXPECT_EQ(trainer.train_step().sent_bytes, (reads ? 0 : rounds * (activations + statistics)) + update);
  }
}

}  // namespace
}  // namespace weft
