// Tests the context axis: each sequence is cut over it, and losses, norms and state depend on nothing else
// than its size.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/device.hpp"
#include "mpi/training/cut_axis.hpp"
#include "ops/cost.hpp"
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

/// Sequences that axes of two, three, four and six ranks divide, into sections of any length.
Sets model(int seq = 48) {
  return {test::unit_buckets, "optimizer.lr=1e-3", "model.layers=3", fmt::format("data.seq={}", seq)};
}

/// The meshes with a context axis of that size, those with a tensor axis among them.
Sets meshes_of(int context) {
  Sets meshes = meshes_with("context", context);
  if (world().size() == 2 * context)
    for (const char* order : {"context = {0}, tensor = 2", "tensor = 2, context = {0}"})
      meshes.push_back("parallel.mesh={ " + fmt::format(fmt::runtime(order), context) + " }");
  return meshes;
}

bool has_tensor(const std::string& mesh) {
  return mesh.find("tensor") != std::string::npos;
}

class Context : public testing::Test {
 protected:
  void SetUp() override {
    if (world().size() == 1) GTEST_SKIP() << "needs several ranks";
  }
  static Sets with(const std::string& mesh, const Sets& more = {}) {
    Sets sets = model();
    sets.push_back(mesh);
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
  }
  static Curve train(const Sets& sets) {
    weft::train::Trainer trainer(test::shared_deck(world(), sets), world());
    return test::train_steps(trainer, 3);
  }
};

/// Every mesh has the plain schedule and some of the others, in turn.
TEST_F(Context, MeshesModesAndSchedulesHaveTheBitsOfTheAxisSize) {
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
      {"schedule.recompute=selective", "schedule.recompute_ops=[\"all_gather\", \"merge_sections\"]"}};
  for (const int context : axis_sizes()) {
    std::map<bool, Curve> first;  // a tensor axis has bits of its own
    const Sets meshes = meshes_of(context);
    for (std::size_t m = 0; m < meshes.size(); ++m) {
      SCOPED_TRACE(meshes[m]);
      const Curve plain = train(with(meshes[m]));
      const auto [known, is_new] = first.emplace(has_tensor(meshes[m]), plain);
      EXPECT_EQ(plain, known->second);
      if (is_new) expect_near(plain, model(), 1e-6);
      for (std::size_t i = m; i < others.size(); i += meshes.size())
        EXPECT_EQ(train(with(meshes[m], others[i])), known->second) << testing::PrintToString(others[i]);
    }
  }
}

TEST_F(Context, NumericsAreThoseOfOneRank) {
  const Sets numerics[] = {{"schedule.disable=[\"fuse\", \"residual\", \"head\"]"},
                           {"optimizer.clip=0"},
                           {"data.batch=3"},
                           {"model.tie_embeddings=true"},
                           {"precision.params=bf16"},
                           {"precision.params=bf16", "precision.grad_wire=bf16"}};
  for (const int context : axis_sizes())
    for (const Sets& sets : numerics) {
      std::map<std::pair<bool, bool>, Curve> first;
      for (const std::string& mesh : meshes_of(context)) {
        const bool several = mesh.find("data = 1") == std::string::npos && !has_tensor(mesh);
        if (sets.front() == "data.batch=3" && several) continue;
        SCOPED_TRACE(mesh + testing::PrintToString(sets));
        const Curve curve = train(with(mesh, sets));
        // A pipe adds the gradients of a tied table in another order.
        const bool piped = sets.front() == "model.tie_embeddings=true" &&
                           mesh.find("pipe") != std::string::npos &&
                           mesh.find("pipe = 1") == std::string::npos;
        const auto [known, is_new] = first.emplace(std::pair(has_tensor(mesh), piped), curve);
        EXPECT_EQ(curve, known->second);
        Sets alone = model();
        alone.insert(alone.end(), sets.begin(), sets.end());
        if (is_new) expect_near(curve, alone, sets.front() == "precision.params=bf16" ? 2e-3 : 1e-6);
      }
    }
}

/// Sections of one token, and of some that are no multiple of what a kernel takes at a time.
TEST_F(Context, SectionsMayHaveAnyLength) {
  for (const int context : axis_sizes())
    for (const int section : {1, 5, 37}) {
      Sets sets = model(2 * context * section);
      sets.push_back(meshes_with("context", context).front());
      expect_near(train(sets), model(2 * context * section), 1e-6);
    }
}

TEST_F(Context, SequencesMustDivide) {
  for (const int context : axis_sizes()) {
    Sets sets = model(2 * context + 1);
    sets.push_back(meshes_with("context", context).front());
    try {
      train(sets);
      FAIL() << "a sequence of " << 2 * context + 1 << " tokens was taken";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(fmt::format("use data.seq = {} or {}", 2 * context, 4 * context)),
                std::string::npos)
          << e.what();
    }
  }
}

TEST_F(Context, GradientsAreThoseOfOneRank) {
  for (const int context : axis_sizes()) expect_gradients_near(model(), meshes_of(context), 1e-5);
}

TEST_F(Context, NumericsOfBf16LeaveGradientsNear) {
  Sets meshes;
  for (const int context : axis_sizes()) meshes.push_back(meshes_of(context).front());
  expect_bf16_gradients_near(model(), meshes);
}

TEST_F(Context, CheckpointsLoadOnAnyMesh) {
  Sets layouts{"parallel.mesh={ data = 0 }"};
  for (const int context : axis_sizes())
    for (const std::string& mesh : meshes_of(context)) layouts.push_back(mesh);
  expect_checkpoints_load(model(), layouts);
}

TEST_F(Context, ValidationAndDocumentsAreThoseOfOneRank) {
  for (const int context : axis_sizes()) expect_text_near(model(), meshes_of(context));
}

/// What goes over the axis in a step: keys and values of each layer forward, and their gradients backward. On
/// one host they are no messages.
TEST_F(Context, SendsWhatTheFormulaSays) {
  const int context = world().size();
  for (const bool shared : {true, false}) {
    const Deck deck = test::shared_deck(
        world(), with(fmt::format("parallel.mesh={{ context = {} }}", context),
                      {shared ? "schedule.disable=[\"rows\"]" : "schedule.disable=[\"rows\", \"share\"]"}));
    weft::train::Trainer trainer(deck, world());
    trainer.train_step();
    const std::int64_t tokens = deck.data.batch * deck.data.seq, rounds = accumulation(deck, 1);
    const std::int64_t kv_dim = deck.model.dim / deck.model.heads * deck.model.kv_heads;
    const std::int64_t activations = 4 * deck.model.layers * tokens * kv_dim * 4 / context * (context - 1);
    std::int64_t others = 0;
    const ir::Graph& graph = trainer.plan().graph;
    for (const ir::Node& node : graph.nodes())
      if (ir::is_collective(node.op) && node.lane != Lane::context)
        others += node.op == ir::Op::all_reduce
                      ? test::short_all_reduce_bytes(graph.local_bytes(node.outputs[0]), context)
                      : ops::wire_bytes(graph, node);
    const bool reads = shared && device_is_host();  // GPUs send even within a host
    EXPECT_EQ(trainer.train_step().sent_bytes, (reads ? 0 : rounds * activations) + others);
  }
}

}  // namespace
}  // namespace weft
