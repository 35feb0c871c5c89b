// Tests the clock of the simulator on cases that can be worked out by hand.
#include "machine/lanes.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace weft::machine {
namespace {

constexpr Lane compute = Lane::compute;
constexpr Lane gather = Lane::gather;
constexpr Lane reduce = Lane::reduce;
constexpr Lane replica = Lane::replica;

CostModel costs(double both_lanes = 1, double beside_compute = 1, double stolen = 0) {
  Profile p = default_profile(DefaultProfile::host);
  p.sharing = {1e9, both_lanes, beside_compute, stolen};
  return CostModel(p);
}

LaneTask task(double seconds, PerLane<std::uint32_t> after = {}, double bytes = 0) {
  return {seconds, bytes, Link::near, after};
}

TEST(Lanes, OverlapWhatDoesNotWait) {
  LaneTasks tasks;
  tasks[compute] = {task(2), task(3)};
  tasks[gather] = {task(4)};
  const LaneTimes t = run_lanes(tasks, costs());
  EXPECT_DOUBLE_EQ(t.end, 5);
  EXPECT_DOUBLE_EQ(t.busy[gather], 4);
  EXPECT_DOUBLE_EQ(t.exposed[gather], 0);
}

TEST(Lanes, WaitsAreExposed) {
  LaneTasks tasks;
  tasks[gather] = {task(1), task(4)};
  tasks[compute] = {task(2, {0, 1, 0}), task(1, {0, 2, 0})};
  tasks[reduce] = {task(3, {2, 0, 0})};
  const LaneTimes t = run_lanes(tasks, costs());
  // Gathers end at 1 and 5; compute runs from 1 to 3 and from 5 to 6; the reduction from 6 to 9.
  EXPECT_DOUBLE_EQ(t.spans[compute][0].start, 1);
  EXPECT_DOUBLE_EQ(t.spans[compute][1].start, 5);
  EXPECT_DOUBLE_EQ(t.end, 9);
  EXPECT_DOUBLE_EQ(t.exposed[gather], 1 + 2);
  EXPECT_DOUBLE_EQ(t.exposed[reduce], 3);
  EXPECT_DOUBLE_EQ(t.exposed[compute], 0);
}

TEST(Lanes, ShareTheLink) {
  LaneTasks tasks;
  tasks[gather] = {task(2)};
  tasks[reduce] = {task(3)};
  // Both run at half speed until the gather has ended at 4. The reduction's last second then takes one
  // second.
  EXPECT_DOUBLE_EQ(run_lanes(tasks, costs(0.5)).end, 5);
}

TEST(Lanes, ThreeOnALinkMoveAsMuchAsTwo) {
  LaneTasks tasks;
  for (const Lane lane : {gather, reduce, Lane::tensor}) tasks[lane] = {task(2)};
  EXPECT_DOUBLE_EQ(run_lanes(tasks, costs(0.5)).end, 6);
  EXPECT_DOUBLE_EQ(run_lanes(tasks, costs(0.75)).end, 4);
}

TEST(Lanes, OnTwoLinksDoNotSlowEachOther) {
  LaneTasks tasks;
  tasks[gather] = {task(2)};
  tasks[gather].front().link = Link::far;
  tasks[Lane::tensor] = {task(3)};
  EXPECT_DOUBLE_EQ(run_lanes(tasks, costs(0.5)).end, 3);
}

TEST(Lanes, TakeFromEachOther) {
  LaneTasks tasks;
  tasks[compute] = {task(4)};
  tasks[gather] = {task(1, {}, 1e9)};
  // The gather at half speed takes 2 s, in which it moves half a byte a nanosecond. Compute loses 0.1 s a GB,
  // at 0.05 a second.
  const LaneTimes t = run_lanes(tasks, costs(1, 0.5, 1e-10));
  EXPECT_DOUBLE_EQ(t.spans[gather][0].end, 2);
  EXPECT_NEAR(t.end, 4.1, 1e-12);
}

TEST(Lanes, ReplicasTakeTheirOwnShare) {
  LaneTasks tasks;
  tasks[compute] = {task(10)};
  tasks[gather] = {task(1, {}, 1e9)};
  tasks[replica] = {task(2, {}, 1e9)};
  Profile p = default_profile(DefaultProfile::host);
  p.sharing = {1e9, 0.5, 0.25, 1e-10, ReplicaSharing{0.8, 0.5, 2e-10}};
  const LaneTimes t = run_lanes(tasks, CostModel(p));
  // The sum runs at 0.5 x 0.8 of its speed and ends at 5, and so does the gather at 0.25 x 0.8. Compute loses
  // 0.1 of the gather's bytes and 0.2 of the sum's: 0.02 + 0.04 of each of five seconds.
  EXPECT_DOUBLE_EQ(t.spans[gather][0].end, 5);
  EXPECT_DOUBLE_EQ(t.spans[replica][0].end, 5);
  EXPECT_NEAR(t.end, 10.3, 1e-12);
}

TEST(Lanes, AreFirstInFirstOut) {
  LaneTasks tasks;
  tasks[compute] = {task(2)};
  tasks[gather] = {task(1, {1, 0, 0}), task(1)};
  EXPECT_DOUBLE_EQ(run_lanes(tasks, costs()).spans[gather][1].end, 4);
}

TEST(Lanes, LateCollectivesHoldUpComputeOnly) {
  LaneTasks tasks;
  tasks[gather] = {task(1), task(1)};
  tasks[compute] = {task(2, {0, 1, 0}), task(2, {0, 2, 0})};
  tasks[reduce] = {task(1, {2, 1, 0})};
  const LaneTimes t = run_lanes(tasks, costs(), 0.5);
  // The first arrives at 1.5, the second at 2.5, while compute is busy until 3.5.
  EXPECT_DOUBLE_EQ(t.spans[gather][1].start, 1);
  EXPECT_DOUBLE_EQ(t.spans[compute][0].start, 1.5);
  EXPECT_DOUBLE_EQ(t.spans[compute][1].start, 3.5);
  EXPECT_DOUBLE_EQ(t.spans[reduce][0].start, 5.5);
  EXPECT_DOUBLE_EQ(t.end, 6.5);
  EXPECT_DOUBLE_EQ(t.exposed[gather], 1.5);
}

TEST(Lanes, ACircleIsAnError) {
  LaneTasks tasks;
  tasks[compute] = {task(1, {0, 1, 0})};
  tasks[gather] = {task(1, {1, 0, 0})};
  EXPECT_THROW(run_lanes(tasks, costs()), std::logic_error);
}

}  // namespace
}  // namespace weft::machine
