#include "mpi/training/cut_axis.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "ckpt/load.hpp"
#include "compile/programs.hpp"
#include "support/reference.hpp"
#include "support/shared_deck.hpp"
#include "support/text_of_ranks.hpp"
#include "train/checkpointing.hpp"

namespace weft::test {
namespace {

using Sets = std::vector<std::string>;
/// By unit, in the order of the checkpoint.
using Moments = std::map<std::string, std::vector<float>>;

constexpr const char* alone = "parallel.mesh={ data = 0 }";

Sets with(Sets sets, const std::string& mesh, const Sets& more = {}) {
  sets.push_back(mesh);
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

Moments read_moments(const Deck& deck, const std::string& checkpoint) {
  Moments all;
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
  return all;
}

/// The first moments behind one step, on rank 0.
Moments moments(comm::World& ranks, const Sets& sets) {
  const Deck deck = shared_deck(ranks, sets);
  weft::train::Trainer(deck, ranks).run();
  Moments all;
  if (ranks.rank() == 0) {
    all = read_moments(deck, deck.run.dir + "/checkpoints/step-00000001");
    std::filesystem::remove_all(deck.run.dir);
  }
  ranks.barrier();
  return all;
}

/// The losses of a step and of a validation, and the tokens of the validation.
std::array<double, 3> losses(comm::World& ranks, const Sets& sets) {
  weft::train::Trainer trainer(shared_deck(ranks, sets), ranks);
  const double trained = trainer.train_step().loss;
  const auto valid = trainer.validate();
  if (!valid) throw std::logic_error("nothing was validated");
  return {trained, valid->loss, static_cast<double>(valid->tokens)};
}

std::uint64_t initial_hash(comm::World& ranks, const Sets& sets) {
  return weft::train::Trainer(shared_deck(ranks, sets), ranks).state().hash();
}

}  // namespace

std::vector<int> axis_sizes() {
  std::vector<int> list;
  for (int size = 2; size <= world().size(); ++size)
    if (world().size() % size == 0) list.push_back(size);
  return list;
}

Sets meshes_with(const std::string& name, int size) {
  Sets list;
  const int rest = world().size() / size;
  for (int pipe = 1; pipe <= rest; ++pipe) {
    if (rest % pipe != 0) continue;
    const int data = rest / pipe;
    list.push_back(fmt::format("parallel.mesh={{ pipe = {}, data = {}, {} = {} }}", pipe, data, name, size));
    if (data * pipe > 1)
      list.push_back(
          fmt::format("parallel.mesh={{ {} = {}, data = {}, pipe = {} }}", name, size, data, pipe));
  }
  return list;
}

void expect_near(const Curve& curve, const Sets& alone, double most) {
  const Curve& expected = reference(alone, static_cast<int>(curve.losses.size()));
  EXPECT_NEAR(curve.norms[0] / expected.norms[0], 1, 10 * most);
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(curve.losses[i] / expected.losses[i], 1, most) << "step " << i;
    EXPECT_NEAR(curve.norms[i] / expected.norms[i], 1, 100 * most) << "step " << i;
  }
  EXPECT_EQ(curve.tokens, expected.tokens);
}

void expect_gradients_near(const Sets& sets, const Sets& meshes, double most) {
  const Sets one_step{"run.steps=1", "checkpoint.final=true", "optimizer.warmup=0", "optimizer.clip=0"};
  Moments expected;
  if (world().rank() == 0) {
    const auto self = comm::make_self_world();
    expected = moments(*self, with(sets, alone, one_step));
    for (const char* path : {"embed.table", "layers.0.attn.norm", "head.norm", "head.weight"})
      EXPECT_TRUE(expected.contains(path)) << path;
  }
  world().barrier();
  for (const std::string& mesh : meshes) {
    const Moments found = moments(world(), with(sets, mesh, one_step));
    EXPECT_EQ(found.size(), expected.size()) << mesh;
    for (const auto& [path, values] : found) {
      double difference = 0, norm = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double e = expected.at(path)[i];
        difference += (values[i] - e) * (values[i] - e);
        norm += e * e;
      }
      EXPECT_GT(norm, 0) << path;
      EXPECT_LE(std::sqrt(difference / norm), most) << path << " " << mesh;
    }
  }
}

void expect_bf16_gradients_near(Sets sets, const Sets& meshes) {
  sets.insert(sets.end(), {"precision.params=bf16", "precision.grad_wire=bf16"});
  // Rounding to bf16 alone moves one rank's gradients by one percent. A sum that one of two ranks leaves out
  // moves them by about seventy.
  expect_gradients_near(sets, meshes, 3e-2);
}

void expect_text_near(const Sets& sets, const Sets& meshes) {
  const TextOfRanks file;
  std::array<double, 3> expected{-1e300, -1e300, -1e300};
  if (world().rank() == 0) {
    const auto self = comm::make_self_world();
    expected = losses(*self, with(sets, alone, file.sets()));
  }
  world().all_reduce_max(expected);
  for (const std::string& mesh : meshes) {
    const auto own = losses(world(), with(sets, mesh, file.sets()));
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(own[i] / expected[i], 1, 1e-6) << mesh;
    EXPECT_EQ(own[2], expected[2]) << mesh;
  }
}

void expect_checkpoints_load(const Sets& sets, const Sets& meshes) {
  std::array<std::uint64_t, 1> initial{0};
  if (world().rank() == 0) {
    const auto self = comm::make_self_world();
    initial[0] = initial_hash(*self, with(sets, alone));
  }
  world().all_reduce_sum(initial);
  for (const std::string& mesh : meshes)
    EXPECT_EQ(initial_hash(world(), with(sets, mesh)), initial[0]) << mesh;
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    SCOPED_TRACE(meshes[i]);
    const Deck deck = shared_deck(world(), with(sets, meshes[i], {"run.steps=2", "checkpoint.final=true"}));
    std::uint64_t hash = 0;
    {
      weft::train::Trainer trainer(deck, world());
      trainer.run();
      hash = trainer.state().hash();
    }
    const std::string resume = "checkpoint.resume=" + deck.run.dir + "/checkpoints/step-00000002";
    for (const std::string& other : {meshes.front(), meshes[(i + 1) % meshes.size()]})
      EXPECT_EQ(initial_hash(world(), with(sets, other, {resume})), hash) << other;
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove_all(deck.run.dir);
    world().barrier();
  }
}

}  // namespace weft::test
