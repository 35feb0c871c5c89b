// Compares what a step's metrics say of its lanes with the plan, and with what each lane took.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/device.hpp"
#include "base/per_lane.hpp"
#include "plan/report.hpp"
#include "report/rank_times.hpp"
#include "report/slowest_rank.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/shared_deck.hpp"
#include "train/trainer.hpp"

namespace weft::train {
namespace {

/// A hang is told in these words: the phase, and the unit or, of a bucket, its first and its last; of what is
/// no unit, the value's name.
TEST(Lanes, CallsAreRecordedWithWhatTheyAreFor) {
  comm::World& world = test::world();
  if (world.size() == 1) GTEST_SKIP() << "needs several ranks";
  const auto labels = [&](const std::vector<std::string>& sets) {
    Trainer trainer(test::shared_deck(world, sets), world);
    trainer.train_step();
    std::set<std::string> found;
    for (const comm::RecordedCall& call : world.recorder().read().calls)
      if (call.label[0] != 0) found.emplace(call.label.data());
    return found;
  };
  const auto has = [](const std::set<std::string>& found, const std::vector<std::string>& expected) {
    for (const std::string& label : expected)
      EXPECT_TRUE(found.contains(label)) << label << " is not in " << testing::PrintToString(found);
  };
  has(labels({test::unit_buckets}), {"forward layers.1.attn", "backward layers.0.ffn", "backward head"});
  has(labels({"schedule.bucketing=manual"}), {"forward layers.1.attn..layers.1.ffn"});
  // Each stage has one layer.
  const int stage = world.rank(), last = world.size() - 1;
  std::vector<std::string> messages;
  if (stage > 0) messages.push_back(fmt::format("forward layers.{}.ffn.out", stage - 1));
  if (stage < last) messages.push_back(fmt::format("forward layers.{}.ffn.out", stage));
  if (stage < last) messages.push_back(fmt::format("backward layers.{}.ffn.out.grad", stage));
  has(labels({fmt::format("parallel.mesh={{ pipe = {} }}", world.size()),
              fmt::format("model.layers={}", world.size())}),
      messages);
}

TEST(Lanes, SendWhatThePlanSaysAndAddUp) {
  for (const char* mode : {"ddp", "zero1", "zero2", "fsdp"}) {
    SCOPED_TRACE(mode);
    comm::World& world = test::world();
    Trainer trainer(test::shared_deck(world, {std::string("parallel.mode=") + mode, test::unit_buckets}),
                    world);
    std::int64_t planned = 0, norm = 0;
    for (const auto& [name, total] : plan::collective_totals(trainer.plan())) {
      planned += total.wire_bytes;
      if (name.find("all_reduce") != std::string::npos) norm += total.payload_bytes;
    }
    for (int i = 0; i < 3; ++i) {
      const report::StepMetrics m = trainer.train_step();
      if (world.size() <= 2) {
        EXPECT_EQ(m.sent_bytes, planned);
      } else {  // an all-reduce as short as this is sent whole to every rank
        EXPECT_NEAR(static_cast<double>(*m.sent_bytes), static_cast<double>(planned),
                    static_cast<double>(norm * world.size()));
      }
      // On a device nobody sees when a collective ends, and so not what of it is exposed.
      ASSERT_EQ(m.exposed_gather_s.has_value(), device_is_host() || world.size() == 1);
      EXPECT_LE(m.exposed_gather_s.value_or(0), m.step_s);
      EXPECT_LE(m.exposed_reduce_s.value_or(0), m.step_s);
      EXPECT_LE(*m.gather_s, m.step_s);
      EXPECT_LE(*m.reduce_s, m.step_s);
      EXPECT_LE(*m.comm_s, *m.gather_s + *m.reduce_s + 1e-9) << "each the slowest rank's";
      EXPECT_GE(*m.comm_s + 1e-9, std::max(*m.gather_s, *m.reduce_s));
      EXPECT_EQ(*m.gather_s > 0, world.size() > 1);
      EXPECT_EQ(*m.reduce_s > 0, world.size() > 1);
      if (world.size() == 1) {
        EXPECT_EQ(*m.exposed_gather_s, 0);
        EXPECT_EQ(*m.exposed_reduce_s, 0);
      }
    }
  }
}

TEST(Lanes, SumsOverReplicasHaveTheirOwn) {
  comm::World& world = test::world();
  for (const int replicas : {1, world.size()}) {
    SCOPED_TRACE(replicas);
    Trainer trainer(test::shared_deck(world, {fmt::format("parallel.mesh={{ replica = {}, data = {} }}",
                                                          replicas, world.size() / replicas)}),
                    world);
    for (int i = 0; i < 3; ++i) {
      const report::StepMetrics m = trainer.train_step();
      ASSERT_EQ(m.replica_s.has_value(), replicas > 1);
      ASSERT_EQ(m.exposed_replica_s.has_value(), replicas > 1 && device_is_host());
      EXPECT_EQ(*m.reduce_s > 0, replicas < world.size());
      if (replicas == 1) continue;
      EXPECT_GT(*m.replica_s, 0);
      EXPECT_NEAR(*m.comm_s, *m.replica_s, 1e-9) << "nothing else is under way";
      EXPECT_LE(m.exposed_replica_s.value_or(0), m.step_s);
      EXPECT_EQ(m.exposed_gather_s.value_or(0), 0);
      EXPECT_EQ(m.exposed_reduce_s.value_or(0), 0);
    }
  }
}

/// Seconds that tell by their sum which lanes they are from, and which number of a lane: those that are
/// exposed are 1, 2, 4, ... seconds, and those under way begin where these end.
double exposed_s(Lane lane) {
  return lane == Lane::compute ? 0 : std::exp2(static_cast<int>(lane));
}
double under_way_s(Lane lane) {
  return lane == Lane::compute ? 0 : std::exp2(lane_count + static_cast<int>(lane));
}

/// Each axis with all ranks in turn. The last rank's numbers are the largest.
TEST(Lanes, AStepsSecondsAreThoseOfTheirOwnLanesOnTheSlowestRank) {
  comm::World& world = test::world();
  for (const std::string_view axis : {data_axis, replica_axis, pipe_axis, tensor_axis, context_axis}) {
    SCOPED_TRACE(axis);
    runtime::Session session(
        test::shared_deck(world,
                          {fmt::format("parallel.mesh={{ {} = {} }}", axis, world.size()), "model.heads=12",
                           "model.kv_heads=12", "model.dim=96", "model.ffn=192", "model.layers=4"}),
        world);
    const double slowest = world.size(), times_slower = world.rank() + 1;
    constexpr double step = 1e9, compute_only = 9e8;
    exec::Times times;
    times.step = step * times_slower;
    double all_exposed = 0, all_under_way = 0;
    for (const Lane lane : all_lanes) {
      times.exposed[lane] = exposed_s(lane) * times_slower;
      times.under_way[lane] = under_way_s(lane) * times_slower;
      times.sent[lane] = static_cast<std::uint64_t>(1024 * times_slower);
      all_exposed += exposed_s(lane);
      all_under_way += under_way_s(lane);
    }
    report::StepNews news{times_slower, 10 * times_slower, 100 * times_slower};
    const auto bytes = static_cast<std::int64_t>(times_slower);
    const report::StepMetrics m = report::slowest_rank(session, times, 2 * step * times_slower, compute_only,
                                                       {1000 * bytes, 3000 * bytes}, news);
    const bool several = world.size() > 1, waits_seen = device_is_host() || !several;
    EXPECT_EQ(m.step_s, 2 * step * slowest);
    EXPECT_EQ(m.compute_s, waits_seen ? (step - all_exposed) * slowest : compute_only);
    EXPECT_EQ(m.comm_s, all_under_way * slowest);
    EXPECT_EQ(m.exposed_comm_s, several ? step * slowest - compute_only : 0);
    using Lanes = std::vector<Lane>;
    const auto expect = [&](std::string_view of, std::optional<double> exposed,
                            std::optional<double> under_way, const Lanes& lanes) {
      SCOPED_TRACE(of);
      const bool there = of == data_axis || (of == axis && several);
      double exposed_sum = 0, under_way_sum = 0;
      for (const Lane lane : lanes) {
        exposed_sum += exposed_s(lane) * slowest;
        under_way_sum += under_way_s(lane) * slowest;
      }
      EXPECT_EQ(exposed, there && waits_seen ? std::optional(exposed_sum) : std::nullopt);
      EXPECT_EQ(under_way, there ? std::optional(under_way_sum) : std::nullopt);
    };
    expect(data_axis, m.exposed_gather_s, m.gather_s, {Lane::gather});
    expect(data_axis, m.exposed_reduce_s, m.reduce_s, {Lane::reduce});
    expect(replica_axis, m.exposed_replica_s, m.replica_s, {Lane::replica});
    expect(pipe_axis, m.exposed_pipe_s, m.pipe_s,
           {Lane::pipe, Lane::from_previous, Lane::to_next, Lane::from_next, Lane::to_previous});
    expect(tensor_axis, m.exposed_tensor_s, m.tensor_s, {Lane::tensor, Lane::copies});
    expect(context_axis, m.exposed_context_s, m.context_s, {Lane::context});
    EXPECT_EQ(m.sent_bytes, 1024 * lane_count * world.size());
    EXPECT_EQ(m.rss_bytes, 1000 * world.size());
    EXPECT_EQ(m.planned_bytes, 3000 * world.size());
    EXPECT_EQ(news.stop_request, slowest);
    EXPECT_EQ(news.data_check, 10 * slowest);
    EXPECT_EQ(news.data_left, 100 * slowest);
  }
}

/// Steps end together. A rank's own seconds are the step less what it waited for the others, or, where a
/// device's waits are not seen, less what its collectives took longer than those of the rank that came last.
TEST(Lanes, ARanksOwnSecondsAreWithoutItsWaits) {
  comm::World& world = test::world();
  runtime::Session session(test::shared_deck(world), world);
  report::RankTimes own(session);
  const auto rank = static_cast<double>(world.rank());
  exec::Times times;
  PerLane<double>& waits = device_is_host() ? times.exposed : times.under_way;
  waits[Lane::gather] = 0.5;
  waits[Lane::pipe] = 0.25 * rank;
  const auto add = [&](double step_seconds, std::int64_t resident, std::int64_t planned) {
    const std::int64_t more = world.rank();
    own.add(times, step_seconds, {resident + more, planned + more});
  };
  add(1000, 50, 500);
  const report::RankFigures first = own.collect();
  EXPECT_EQ(first.steps, 0) << "the first step does not count";
  EXPECT_EQ(first.seconds, std::vector<double>(static_cast<std::size_t>(world.size())));
  add(1.5, 30, 500);
  add(2.5, 40, 500);
  add(2, 35, 600);
  const report::RankFigures figures = own.collect();
  EXPECT_EQ(figures.steps, 3);
  ASSERT_EQ(figures.seconds.size(), static_cast<std::size_t>(world.size()));
  ASSERT_EQ(figures.memory.size(), figures.seconds.size());
  for (std::size_t r = 0; r < figures.seconds.size(); ++r) {
    const double waited = (device_is_host() ? 0.5 : 0) + 0.25 * static_cast<double>(r);
    EXPECT_NEAR(figures.seconds[r], 2 - waited, 1e-12) << r;
    EXPECT_EQ(first.memory[r].resident, 50 + static_cast<std::int64_t>(r));
    EXPECT_EQ(figures.memory[r].resident, 40 + static_cast<std::int64_t>(r))
        << "the most since the last call";
    EXPECT_EQ(figures.memory[r].planned, 600 + static_cast<std::int64_t>(r));
  }
}

}  // namespace
}  // namespace weft::train
