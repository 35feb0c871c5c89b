// Memory that ranks of one host share: what the pass marks, what crosses between hosts, what a rank holds.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "ops/cost.hpp"
#include "plan/report.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Op;
using passes::ShardMode;

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
      ASSERT_EQ(alone.size(), shared.size());
      for (const auto& [name, total] : shared) {
        const std::int64_t payload = total.payload_bytes;
        EXPECT_EQ(payload, alone.at(name).payload_bytes) << name;
        // In ddp the summed gradients are gathered; zero1 and zero2 gather into storage, which nobody shares.
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
                   shared = Sharing(4, 4, ShardMode::fsdp).plan();
  EXPECT_EQ(alone.common_bytes, 0);
  EXPECT_EQ(alone.team, 1);
  EXPECT_EQ(shared.team, 4);
  std::int64_t largest = 0;
  for (std::size_t v = 0; v < shared.graph.values().size(); ++v) {
    const ir::Value& value = shared.graph.values()[v];
    if (!value.producer.valid() || shared.graph.node(value.producer).op != Op::all_gather) continue;
    const bool unit = value.unit.valid();
    EXPECT_EQ(shared.locations[v].space, unit ? plan::Space::common : plan::Space::arena) << value.name;
    if (unit) largest = std::max(largest, shared.locations[v].bytes);
  }
  EXPECT_GE(shared.common_bytes, largest);
  EXPECT_LT(shared.arena_bytes, alone.arena_bytes);
  EXPECT_LT(shared.peak_bytes(), alone.peak_bytes());
  EXPECT_NE(shared.hash, alone.hash);
  EXPECT_GE(shared.peak_bytes(), shared.live_bytes);
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
