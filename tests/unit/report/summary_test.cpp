#include "report/summary.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <utility>

#include "../graph/small_model.hpp"
#include "unit/report/lane_seconds.hpp"

namespace weft::report {
namespace {

constexpr Lane gather = Lane::gather;
constexpr Lane reduce = Lane::reduce;
constexpr Lane replica = Lane::replica;

StepMetrics step_of(double seconds) {
  StepMetrics m;
  m.step_s = seconds;
  m.compute_s = seconds - 0.5;
  m.exposed_gather_s = 0.25;
  m.exposed_reduce_s = 0.125;
  m.gather_s = 0.5;
  m.reduce_s = 1.5;
  m.sent_bytes = 3 << 20;
  m.rss_bytes = 100 << 20;
  return m;
}

Summary::About about(int ranks) {
  compile::StepParts planned;
  planned.step = 2;
  planned.compute_only = 1;
  planned.compute = 1.5;
  planned.under_way[gather] = 1;
  planned.under_way[reduce] = 1.25;
  planned.exposed[gather] = 0.5 - 1e-15;
  planned.sent_bytes = 3 << 20;
  planned.wire = 1.5;
  planned.memory_bytes = 50 << 20;
  return {ranks, 1.25, planned, "machine.toml (vm)"};
}

/// By each row's name, what follows it, with single spaces.
std::map<std::string, std::string> rows_of(const Summary& summary) {
  std::map<std::string, std::string> rows;
  for (const std::string& line : summary.lines()) {
    if (line.starts_with("  planned with") || line.starts_with("  no seconds")) continue;
    const std::string name = line.substr(0, std::min<std::size_t>(42, line.size()));
    std::istringstream words(line.substr(name.size()));
    std::string rest;
    for (std::string word; words >> word;) rest += (rest.empty() ? "" : " ") + word;
    rows[name.substr(name.find_first_not_of(' '),
                     name.find_last_not_of(' ') + 1 - name.find_first_not_of(' '))] = rest;
  }
  return rows;
}

TEST(Summary, MediansBesideThePlan) {
  Summary summary(about(2));
  for (const double seconds : {100.0, 3.0, 9.0, 2.0, 2.5}) summary.add(step_of(seconds));
  const auto rows = rows_of(summary);
  // The first step does not count, which leaves 2, 2.5, 3 and 9 seconds.
  EXPECT_EQ(rows.at("median of 4 steps"), "measured planned ratio");
  EXPECT_EQ(rows.at("step"), "2.750 s 2.000 s 1.38");
  EXPECT_EQ(rows.at("compute-only step"), "1.250 s 1.000 s 1.25");
  EXPECT_EQ(rows.at("compute lane, busy"), "2.250 s 1.500 s 1.50");
  EXPECT_EQ(rows.at("of it stolen by communication"), "1.000 s 500.000 ms 2.00");
  EXPECT_EQ(rows.at("gather lane, under way"), "500.000 ms 1.000 s 0.50");
  EXPECT_EQ(rows.at("reduce lane, under way"), "1.500 s 1.250 s 1.20");
  EXPECT_EQ(rows.at("exposed gathers"), "250.000 ms 500.000 ms 0.50");
  EXPECT_EQ(rows.at("exposed reductions"), "125.000 ms 0.000 ms -");
  EXPECT_EQ(rows.at("idle and other"), "125.000 ms 0.000 ms -");
  EXPECT_EQ(rows.at("wire: bytes sent at the link's rate"), "1.500 s 1.500 s 1.00");
  EXPECT_EQ(rows.at("bound: max(compute-only, wire)"), "1.500 s 1.500 s 1.00");
  EXPECT_EQ(rows.at("sent by a rank"), "3.00 MiB 3.00 MiB 1.00");
  EXPECT_EQ(rows.at("rate while under way"), "1.50 MiB/s 1.33 MiB/s 1.12");
  EXPECT_EQ(rows.at("memory of a rank: resident, planned"), "100.00 MiB 50.00 MiB 2.00");
  EXPECT_FALSE(rows.contains("replica lane, under way"));
  EXPECT_EQ(summary.lines().back(), "  planned with the machine profile: machine.toml (vm)");
}

/// The default profiles describe another machine, so seconds planned with them are not compared with measured
/// ones.
TEST(Summary, WithoutAMeasuredProfileNothingIsSaidOfPlannedSeconds) {
  Summary::About without = about(2);
  without.profile.clear();
  Summary summary(without);
  summary.add(step_of(3));
  const auto rows = rows_of(summary);
  EXPECT_EQ(rows.at("median of 1 step"), "measured planned ratio");
  EXPECT_EQ(rows.at("step"), "3.000 s");
  EXPECT_EQ(rows.at("compute-only step"), "1.250 s");
  EXPECT_EQ(rows.at("of it stolen by communication"), "1.250 s");
  EXPECT_EQ(rows.at("exposed gathers"), "250.000 ms");
  EXPECT_EQ(rows.at("rate while under way"), "1.50 MiB/s");
  EXPECT_EQ(rows.at("sent by a rank"), "3.00 MiB 3.00 MiB 1.00") << "bytes do not depend on the machine";
  EXPECT_EQ(rows.at("memory of a rank: resident, planned"), "100.00 MiB 50.00 MiB 2.00");
  for (const char* name : {"wire: bytes sent at the link's rate", "bound: max(compute-only, wire)"})
    EXPECT_FALSE(rows.contains(name)) << name << " comes from the profile";
  EXPECT_EQ(summary.lines().back(),
            "  no seconds are planned without a profile of this machine: weft profile measures one, "
            "schedule.profile names it");
  for (const std::string& line : summary.lines()) EXPECT_FALSE(line.ends_with(' ')) << line;
}

TEST(Summary, SumsOverReplicasHaveALane) {
  Summary::About with_replicas = about(4);
  with_replicas.planned.under_way[replica] = 0.75;
  with_replicas.planned.exposed[replica] = 0.125;
  Summary summary(with_replicas);
  StepMetrics m = step_of(2);
  m.replica_s = 1;
  m.exposed_replica_s = 0.0625;
  m.sent_bytes = 6 << 20;  // twice the planned bytes take twice as long
  summary.add(m);
  const auto rows = rows_of(summary);
  EXPECT_EQ(rows.at("reduce lane, under way"), "1.500 s 1.250 s 1.20");
  EXPECT_EQ(rows.at("replica lane, under way"), "1.000 s 750.000 ms 1.33");
  EXPECT_EQ(rows.at("exposed sums over replicas"), "62.500 ms 125.000 ms 0.50");
  EXPECT_EQ(rows.at("idle and other"), "62.500 ms 0.000 ms -");
  EXPECT_EQ(rows.at("rate while under way"), "2.00 MiB/s 1.00 MiB/s 2.00");
  EXPECT_EQ(rows.at("wire: bytes sent at the link's rate"), "3.000 s 1.500 s 2.00");
}

/// Twice as much is planned of everything, some of it on lanes that are measured together with others.
TEST(Summary, EachKindOfLaneHasItsRows) {
  Summary::About all = about(16);
  compile::StepParts& planned = all.planned;
  planned.under_way = planned.exposed = {};
  for (const Lane lane : stage_lanes) planned.under_way[lane] = planned.exposed[lane] = 1;
  planned.under_way[Lane::copies] = planned.exposed[Lane::copies] = 5;
  int seconds = 0;
  for (const auto& [lane, together] : {std::pair(gather, 0),
                                       {reduce, 0},
                                       {replica, 0},
                                       {Lane::pipe, 4},
                                       {Lane::tensor, 5},
                                       {Lane::context, 0}}) {
    planned.exposed[lane] = 2 * ++seconds - together;
    planned.under_way[lane] = 2 * ++seconds - together;
  }
  Summary summary(all);
  StepMetrics m = step_of(100);
  m.compute_s = 50;
  m.sent_bytes = 42 << 20;
  test::count_lane_seconds(m);
  summary.add(m);
  const auto rows = rows_of(summary);
  seconds = 0;
  for (const char* name :
       {"exposed gathers", "gather lane, under way", "exposed reductions", "reduce lane, under way",
        "exposed sums over replicas", "replica lane, under way", "waits for other stages",
        "messages between stages, under way", "exposed collectives of tensor", "tensor lane, under way",
        "exposed collectives of context", "context lane, under way"}) {
    ++seconds;
    EXPECT_EQ(rows.at(name), fmt::format("{}.000 s {}.000 s 0.50", seconds, 2 * seconds)) << name;
  }
  EXPECT_EQ(rows.at("idle and other"), "14.000 s 0.000 ms -") << "100 s less 50 s and what is exposed";
  EXPECT_EQ(rows.at("rate while under way"), "1.00 MiB/s 36.57 KiB/s 28.00");
}

/// The wire is gathers and reductions by their bytes and the link, or sums over replicas by themselves.
TEST(Summary, TheLongerOfTwoWaysIsTheWire) {
  test::SmallModel m;
  m.replicas = 2;
  const plan::Plan plan = plan::lower(m.step(), test::test_scratch);
  machine::Profile profile = default_profile(machine::DefaultProfile::host);
  const auto wire = [&](double link) {
    profile.sharing.link_bytes_per_s = link;
    return compile::planned_step(plan, machine::CostModel(profile)).wire;
  };
  double bytes = 0, sums = 0;
  const machine::CostModel costs(profile);
  for (const ir::Node& node : plan.graph.nodes())
    if (ir::is_collective(node.op) && node.lane == Lane::replica) {
      sums += costs.collective_seconds(plan.graph, node);
    } else if (ir::is_collective(node.op)) {
      bytes += costs.bytes_sent(plan.graph, node);
    }
  ASSERT_GT(sums, 0);
  EXPECT_DOUBLE_EQ(wire(1e15), sums);
  EXPECT_DOUBLE_EQ(wire(1e3), bytes / 1e3);
}

TEST(Summary, TheMostMemoryOfAllSteps) {
  Summary summary(about(2));
  for (const int mib : {300, 100, 200, 50}) {
    StepMetrics m = step_of(1);
    m.rss_bytes = std::int64_t{mib} << 20;
    summary.add(m);
  }
  EXPECT_EQ(rows_of(summary).at("memory of a rank: resident, planned"), "300.00 MiB 50.00 MiB 6.00");
}

TEST(Summary, OneRankHasNoCommunication) {
  Summary summary(about(1));
  summary.add(step_of(7));
  auto rows = rows_of(summary);
  EXPECT_EQ(rows.at("median of 1 step"), "measured planned ratio") << "the only step counts";
  EXPECT_EQ(rows.at("step"), "7.000 s 2.000 s 3.50");
  EXPECT_EQ(rows.size(), 5U);
  for (const char* name : {"median of 1 step", "step", "compute lane, busy", "idle and other",
                           "memory of a rank: resident, planned"})
    EXPECT_EQ(rows.erase(name), 1U) << name;
}

TEST(Summary, WhatTheHostDoesNotSeeHasNoRow) {
  Summary summary(about(2));
  StepMetrics m = step_of(2);
  m.exposed_gather_s.reset();
  m.exposed_reduce_s.reset();
  summary.add(m);
  const auto rows = rows_of(summary);
  for (const char* name : {"compute lane, busy", "of it stolen by communication", "exposed gathers",
                           "exposed reductions", "idle and other"})
    EXPECT_FALSE(rows.contains(name)) << name;
  EXPECT_TRUE(rows.contains("gather lane, under way"));
}

TEST(Summary, NothingWithoutSteps) {
  EXPECT_TRUE(Summary(about(2)).lines().empty());
}

TEST(Summary, ALongRunIsRememberedByItsLastSteps) {
  Summary summary(about(2));
  for (int i = 0; i < 20'000; ++i) summary.add(step_of(i < 10'000 ? 5 : 3));
  EXPECT_EQ(rows_of(summary).at("median of 1000 steps"), "measured planned ratio");
  EXPECT_EQ(rows_of(summary).at("step"), "3.000 s 2.000 s 1.50");
}

}  // namespace
}  // namespace weft::report
