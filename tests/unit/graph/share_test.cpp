// Tests memory that ranks of one host share: what the pass marks, what crosses between hosts, and what a rank
// holds.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "ir/text.hpp"
#include "ops/cost.hpp"
#include "plan/kept.hpp"
#include "plan/report.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Op;

struct Sharing : test::SmallModel {
  Sharing(int ranks_of_all, int team, ShardMode mode) {
    ranks = ranks_of_all;
    options.shard.mode = mode;
    this->team = team;
  }
  plan::Plan plan() const {
    plan::Plan plan = plan::lower(step(), test::test_scratch);
    EXPECT_NO_THROW(plan::verify(plan));
    return plan;
  }
};

TEST(Share, CrossesHostsOnceAHost) {
  for (const ShardMode mode : test::all_modes)
    for (const auto& [ranks, team] : {std::pair{2, 2}, {4, 2}, {6, 3}, {6, 2}, {8, 8}}) {
      SCOPED_TRACE(fmt::format("mode {}, {} ranks, {} a host", static_cast<int>(mode), ranks, team));
      const auto alone = plan::collective_totals(Sharing(ranks, 1, mode).plan());
      const auto shared = plan::collective_totals(Sharing(ranks, team, mode).plan());
      // A unit whose slices all stand on one host is gathered once a step.
      const bool in_place = mode == ShardMode::fsdp && team == ranks;
      ASSERT_EQ(alone.size(), shared.size() + (in_place ? 1 : 0));
      for (const auto& [name, total] : shared) {
        const std::int64_t payload = total.payload_bytes;
        EXPECT_EQ(payload, alone.at(name).payload_bytes) << name;
        // In ddp the summed gradients are gathered. zero1 and zero2 gather into storage, which nobody shares.
        const bool to_storage = mode == ShardMode::zero1 || mode == ShardMode::zero2;
        if (name.find("all_gather f32") != std::string::npos && !to_storage) {
          EXPECT_LE(std::abs(total.wire_bytes - payload * (ranks / team - 1) / ranks), total.count) << name;
        } else if (name.find("reduce_scatter") != std::string::npos) {
          EXPECT_LE(std::abs(total.wire_bytes - payload * (ranks - team) / ranks), total.count) << name;
        } else {
          EXPECT_EQ(total.wire_bytes, alone.at(name).wire_bytes) << name;
        }
      }
    }
}

TEST(Share, HoldsGatheredParametersOnce) {
  const plan::Plan alone = Sharing(4, 1, ShardMode::fsdp).plan(),
                   shared = Sharing(4, 2, ShardMode::fsdp).plan();
  EXPECT_EQ(alone.common_bytes, 0);
  EXPECT_EQ(alone.team, 1);
  EXPECT_EQ(shared.team, 2);
  std::int64_t largest = 0;
  for (std::size_t v = 0; v < shared.graph.values().size(); ++v) {
    const ir::Value& value = shared.graph.values()[v];
    if (!value.producer.valid() || shared.graph.node(value.producer).op != Op::all_gather) continue;
    const bool unit = value.unit.valid();
    EXPECT_EQ(shared.locations[v].memory, unit ? plan::MemoryKind::common : plan::MemoryKind::arena)
        << value.name;
    if (unit) largest = std::max(largest, shared.locations[v].bytes);
  }
  EXPECT_GT(largest, 0);
  EXPECT_GE(shared.common_bytes, largest);
  EXPECT_LT(shared.arena_bytes, alone.arena_bytes);
  EXPECT_LT(shared.peak_bytes(), alone.peak_bytes());
  EXPECT_NE(shared.hash, alone.hash);
  EXPECT_GE(shared.peak_bytes(), shared.live_bytes);
}

/// A team that is the whole axis reads each unit where its ranks' slices stand, in other rounds and in
/// backward, too.
TEST(Share, GathersInPlaceWhereATeamIsTheWholeAxis) {
  for (const DType params : {DType::f32, DType::bf16}) {
    Sharing m(4, 4, ShardMode::fsdp);
    m.rounds = 2;
    m.options.precision.params = params;
    const plan::Plan plan = m.plan();
    EXPECT_EQ(plan.common_bytes, 0) << "copies";
    std::size_t gathers = 0;
    for (const ir::Node& node : plan.graph.nodes()) {
      if (node.op != Op::all_gather || node.lane != Lane::gather) continue;
      ++gathers;
      const plan::Location &slice = plan.locations[node.inputs[0].index()],
                           &whole = plan.locations[node.outputs[0].index()];
      EXPECT_EQ(whole.memory, plan::MemoryKind::storage);
      EXPECT_EQ(whole.storage, slice.storage);
      EXPECT_EQ(whole.bytes, 4 * slice.bytes);
      EXPECT_EQ(whole.offset, slice.offset);
      EXPECT_EQ(whole.rank_stride, -slice.bytes) << "rank 1's slice begins a slice behind the whole";
      EXPECT_TRUE(plan.storage_common[whole.storage.index()]);
      EXPECT_EQ(ops::local_bytes(plan.graph, node), 0);
    }
    EXPECT_EQ(gathers, plan.graph.units().size());
    std::size_t views = 0;
    for (const ir::Node& node : plan.graph.nodes()) {
      if (node.op != Op::view) continue;
      const plan::Location &whole = plan.locations[node.inputs[0].index()],
                           &part = plan.locations[node.outputs[0].index()];
      EXPECT_EQ(part.storage, whole.storage);
      EXPECT_EQ(part.rank_stride, whole.rank_stride);
      views += part.offset > whole.offset ? 1 : 0;
    }
    EXPECT_GT(views, 0U);
  }
}

/// On the tensor axis rows are read where they stand: nothing is in common, and nothing crosses inside a
/// host.
TEST(Share, ReadsRowsOfTheTensorAxisWhereTheyStand) {
  for (const int tensor : {2, 4})
    for (const int team : {1, 2, 4}) {
      if (team > tensor) continue;
      SCOPED_TRACE(fmt::format("{} of {}", team, tensor));
      Sharing m(2, 1, ShardMode::fsdp);
      m.spec.heads = m.spec.kv_heads = 4;
      m.options.partition = true;
      m.tensor = tensor;
      m.tensor_team = team;
      const plan::Plan plan = m.plan();
      EXPECT_EQ(plan.team, 1);
      EXPECT_EQ(plan.common_bytes, 0);
      EXPECT_EQ(plan.shares_memory(), team > 1);
      std::size_t shared = 0;
      for (const ir::Node& node : plan.graph.nodes()) {
        if (!ir::is_collective(node.op) || node.lane != Lane::tensor || node.op == Op::all_reduce) continue;
        ++shared;
        const std::int64_t payload = ops::payload_bytes(plan.graph, node);
        EXPECT_EQ(ops::team_of(node), team);
        EXPECT_EQ(ops::wire_bytes(plan.graph, node), payload * (tensor - team) / tensor);
        const std::int64_t read = payload / tensor * (team - 1);
        EXPECT_EQ(ops::local_bytes(plan.graph, node), node.op == Op::all_gather ? 2 * read : read);
        const plan::Location& in = plan.locations[node.inputs[0].index()];
        EXPECT_EQ(in.memory, plan::MemoryKind::arena);
        EXPECT_TRUE(team == 1 || in.offset + in.bytes <= plan.shown_bytes);
        EXPECT_EQ(plan.locations[node.outputs[0].index()].memory, plan::MemoryKind::arena);
      }
      EXPECT_GT(shared, 4 * m.spec.layers);
    }
}

/// What neighbours read is added up where it stands, without a second buffer: with fewer heads of keys and
/// values than ranks, the gradient of a block's input is a sum of several products.
TEST(Share, SumsThatNeighboursReadStayInPlace) {
  for (const int team : {1, 4}) {
    Sharing m(1, 1, ShardMode::fsdp);
    m.spec.heads = 4;
    m.spec.kv_heads = 2;
    m.tensor = 4;
    m.tensor_team = team;
    m.options.partition = true;
    const plan::Plan plan = m.plan();
    int sums = 0;
    for (const ir::Node& node : plan.graph.nodes()) {
      if (node.op != Op::matmul_dgrad || !node.has(ir::operand::matmul_dgrad::so_far)) continue;
      ++sums;
      EXPECT_EQ(plan.locations[node.in(ir::operand::matmul_dgrad::so_far).index()].offset,
                plan.locations[node.outputs[0].index()].offset)
          << team;
    }
    EXPECT_GT(sums, 0);
  }
}

/// A collective that sends messages must not be given what its channel would read on the neighbours.
TEST(Share, UnmarkedCollectivesStandElsewhere) {
  Sharing m(1, 1, ShardMode::fsdp);
  m.spec.heads = m.spec.kv_heads = 4;
  m.tensor = m.tensor_team = 2;
  m.options.partition = true;
  m.options.disable = {"share"};
  plan::Plan plan = m.plan();  // nothing is shown
  plan.shown_bytes = plan.arena_bytes;
  EXPECT_THROW(plan::verify(plan), std::logic_error);
}

/// The waits of a rank do not order what it writes behind what its neighbours read. A collective between the
/// two does.
TEST(Share, WritesNoSliceThatATeamMayRead) {
  const std::string text =
      "graph g\nmesh data=2\nunit u 512\n  u.a [512] 0\n"
      "storage master.u master f32[512]u(u){S0}\n"
      "forward r0 compute u | w:f32[512]u(u){S0}@master.u = state()\n"
      "forward r0 gather u | u.full:f32[512]u(u){R} = all_gather(w) axis=0 team=2\n"
      "forward r0 compute u | a:f32[512]{R} = view(u.full) offset=0\n"
      "forward r0 compute u | y:f32[512]{P} = add(a, a)\n"
      "forward r0 compute u | z:f32[512]{P} = add(a, a)\n";
  const std::string sum = "update r0 reduce u | s:f32[512]{R} = all_reduce(z) axis=0\n";
  const auto write = [](const std::string& gradient) {
    return "update r0 compute u | w.new:f32[512]u(u){S0}@master.u = adamw(" + gradient + ", w)\n";
  };
  const auto verify = [](const std::string& whole) {
    plan::verify(plan::lower(ir::parse(whole), test::test_scratch));
  };
  EXPECT_NO_THROW(verify(text + sum + write("s")));
  EXPECT_THROW(verify(text + write("y")), std::logic_error) << "nothing makes the ranks meet";
  EXPECT_THROW(verify(text + sum + write("y")), std::logic_error) << "it does not wait for the sum";

  // This slice is written first, while a neighbour may still read it in its last run.
  const auto first = [](const std::string& meeting, const std::string& gradient) {
    return "graph g\nmesh data=2\nunit u 512\n  u.a [512] 0\n"
           "storage master.u master f32[512]u(u){S0}\n"
           "forward r0 compute u | x:f32[512]{P} = zeros()\n" +
           meeting + "forward r0 compute u | w:f32[512]u(u){S0}@master.u = adamw(" + gradient +
           ")\n"
           "forward r0 gather u | u.full:f32[512]u(u){R} = all_gather(w) axis=0 team=2\n"
           "forward r0 compute u | a:f32[512]{R} = view(u.full) offset=0\n"
           "forward r0 compute u | y:f32[512]{R} = add(a, a)\n";
  };
  EXPECT_NO_THROW(verify(first("forward r0 reduce u | s:f32[512]{R} = all_reduce(x) axis=0\n", "s")));
  EXPECT_THROW(verify(first("", "x")), std::logic_error);
  EXPECT_THROW(verify(text + sum + write("s") + "update r0 compute u | late:f32[512]{R} = add(a, a)\n"),
               std::logic_error)
      << "what was gathered is gone";
}

/// ddp gathers the sums of gradients. Each rank's sum stands in the storage that its reduce-scatter writes,
/// which is a meeting itself.
TEST(Share, GathersSumsOfGradientsInPlace) {
  const plan::Plan plan = Sharing(4, 4, ShardMode::ddp).plan();
  EXPECT_EQ(plan.common_bytes, 0);
  for (std::size_t s = 0; s < plan.graph.storages().size(); ++s)
    EXPECT_EQ(plan.storage_common[s], plan.graph.storages()[s].role == ir::Role::gradient)
        << plan.graph.storages()[s].name;
}

TEST(Share, WhatIsReadInPlaceIsNotKept) {
  std::size_t kept = 0;
  for (const plan::KeptKind& kind : plan::kept_for_backward(Sharing(4, 4, ShardMode::fsdp).plan().graph))
    for (const plan::KeptValue& value : kind.kept) {
      ++kept;
      EXPECT_EQ(value.name.find("full"), std::string::npos) << value.name;
    }
  EXPECT_GT(kept, 10U);
}

TEST(Share, ShowsTheTeamGradientsAndLittleElse) {
  for (const bool reuse : {true, false}) {
    Sharing m(4, 4, ShardMode::fsdp);
    if (!reuse) m.options.disable = {"memory"};
    const plan::Plan plan = m.plan();
    std::int64_t gradients = 0;
    for (const ir::Node& node : plan.graph.nodes()) {
      if (node.op != Op::reduce_scatter) continue;
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const plan::Location& l = plan.locations[node.inputs[i].index()];
        EXPECT_LE(l.offset + l.bytes, plan.shown_bytes) << plan.graph.value(node.inputs[i]).name;
        gradients += l.bytes;
      }
    }
    EXPECT_GT(plan.shown_bytes, 0);
    EXPECT_LT(plan.shown_bytes, plan.arena_bytes);
    if (reuse) {
      EXPECT_LT(plan.shown_bytes, gradients) << "they are freed as they are reduced";
    }
  }
}

TEST(Share, CanBeSwitchedOff) {
  Sharing m(4, 2, ShardMode::fsdp);
  m.options.disable = {"share"};
  EXPECT_EQ(m.plan().hash, Sharing(4, 1, ShardMode::fsdp).plan().hash);
}

}  // namespace
}  // namespace weft
