#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>

#include "ir/text.hpp"
#include "needed_waits.hpp"
#include "plan/hazards.hpp"
#include "plan/offsets.hpp"
#include "plan/report.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using plan::Buffer;
using test::SmallModel;

TEST(Plan, VerifiesInEveryMode) {
  for (const auto mode : test::all_modes)
    for (const DType params : {DType::f32, DType::bf16})
      for (const int ranks : {1, 2, 3, 6})
        for (const int prefetch : {0, 1, 3}) {
          SmallModel m;
          m.options.shard.mode = mode;
          m.options.precision.params = params;
          m.options.order.prefetch = prefetch;
          m.ranks = ranks;
          m.rounds = 2;
          const plan::Plan plan = plan::lower(m.step(), test::test_scratch);
          EXPECT_NO_THROW(plan::verify(plan));
          EXPECT_GE(plan.arena_bytes, plan.live_bytes);
          // Two layers make a few large buffers. memory_test.cpp holds larger plans to 2 %.
          EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.1 * static_cast<double>(plan.live_bytes));
        }
}

TEST(Plan, EveryWaitIsNeeded) {
  SmallModel m;
  m.rounds = 2;
  const PerLane<int> waits = test::expect_every_wait_is_needed(plan::lower(m.step(), test::test_scratch));
  EXPECT_GT(waits[Lane::compute] + waits[Lane::gather] + waits[Lane::reduce], 20);
}

plan::Plan plan_of(const std::string& nodes) {
  return plan::lower(ir::parse("graph g\nmesh data=2\nunit u 512\n  u.a [512] 0\n"
                               "storage master.u master f32[512]u(u){S0}\n" +
                               nodes),
                     test::test_scratch);
}

plan::Instruction& instruction_of(plan::Plan& plan, const std::string& name) {
  for (plan::Instruction& instruction : plan.instructions) {
    const ir::Node& node = plan.graph.node(instruction.node);
    if (!node.outputs.empty() && plan.graph.value(node.outputs.front()).name == name) return instruction;
  }
  throw std::logic_error("nothing makes " + name);
}

/// `v` waits for the gather instead of `z`, which is made where the gather reads.
TEST(Plan, WhatIsMadeInPlaceWaitsForWhoReadsTheOperand) {
  plan::Plan plan = plan_of(
      "forward r0 compute u | x:f32[512]{S0} = zeros()\n"
      "forward r0 compute u | y:f32[512]{S0} = zeros()\n"
      "forward r0 gather u | s:f32[512]{R} = all_gather(x) axis=0\n"
      "forward r0 compute u | z:f32[512]{S0} = add(x, y)\n"
      "forward r0 compute u | t:f32[512]{S0} = add(z, z)\n"
      "forward r0 compute u | v:f32[512]{R} = add(s, s)\n");
  EXPECT_NO_THROW(plan::verify(plan));
  ASSERT_EQ(instruction_of(plan, "z").waits.size(), 1U);
  std::swap(instruction_of(plan, "z").waits, instruction_of(plan, "v").waits);
  EXPECT_THROW(plan::verify(plan), std::logic_error);
}

/// The gather reads the storage by a value of its own, and waits for all before the update.
TEST(Plan, AStorageIsReadBehindWhatWroteIt) {
  plan::Plan plan = plan_of(
      "forward r0 compute u | w:f32[512]u(u){S0}@master.u = state()\n"
      "forward r0 compute u | x:f32[512]{S0} = zeros()\n"
      "forward r0 compute u | w.new:f32[512]u(u){S0}@master.u = adamw(x, w)\n"
      "forward r0 compute u | again:f32[512]u(u){S0}@master.u = state()\n"
      "forward r0 gather u | u.full:f32[512]u(u){R} = all_gather(again) axis=0\n"
      "forward r0 compute u | a:f32[512]{R} = view(u.full) offset=0\n"
      "forward r0 compute u | y:f32[512]{R} = add(x, a)\n");
  EXPECT_NO_THROW(plan::verify(plan));
  plan::Instruction& gather = instruction_of(plan, "u.full");
  ASSERT_EQ(gather.waits.size(), 1U);
  --gather.waits.front().sequence;
  EXPECT_THROW(plan::verify(plan), std::logic_error);
}

TEST(Plan, OverlappingBuffersDoNotVerify) {
  SmallModel m;
  plan::Plan bad = plan::lower(m.step(), test::test_scratch);
  for (Buffer& b : bad.buffers) b.offset = 0;
  for (plan::Location& l : bad.locations)
    if (l.memory == plan::MemoryKind::arena) l.offset = 0;
  EXPECT_THROW(plan::verify(bad), std::logic_error);
}

TEST(Plan, IsTheSameForEveryRankAndRun) {
  SmallModel m;
  EXPECT_EQ(plan::lower(m.step(), test::test_scratch).hash, plan::lower(m.step(), test::test_scratch).hash);
  SmallModel other;
  other.options.update.eps = 1e-7;
  EXPECT_NE(plan::lower(m.step(), test::test_scratch).hash,
            plan::lower(other.step(), test::test_scratch).hash);
}

/// NCCL receives into a reduction's scratch, and other kernels' is a rank's own.
TEST(Plan, TheHashCoversTheScratchOfWhatCommunicates) {
  const SmallModel m;
  const auto with_scratch_for = [&](ir::Op op) {
    return plan::lower(m.step(), [op](const ir::Graph&, const ir::Node& node) {
      return node.op == op && node.module == "embed" ? 256 : 0;
    });
  };
  const plan::Plan plan = with_scratch_for(ir::Op::zeros), lookup = with_scratch_for(ir::Op::embedding),
                   reduction = with_scratch_for(ir::Op::reduce_scatter);
  for (const plan::Plan* other : {&lookup, &reduction}) {
    ASSERT_EQ(other->arena_bytes, plan.arena_bytes);
    for (std::size_t i = 0; i < plan.locations.size(); ++i)
      ASSERT_EQ(other->locations[i].offset, plan.locations[i].offset) << i;
  }
  EXPECT_EQ(lookup.hash, plan.hash);
  EXPECT_NE(reduction.hash, plan.hash);
}

TEST(Plan, ReuseOffGivesEveryBufferItsOwnPlace) {
  SmallModel m;
  const plan::Plan plan = plan::lower(m.step(), test::test_scratch, plan::MemoryReuse::off);
  std::int64_t sum = 0;
  for (const Buffer& b : plan.buffers) sum += b.bytes;
  EXPECT_EQ(plan.arena_bytes, sum);
  EXPECT_NO_THROW(plan::verify(plan));
}

TEST(Plan, FsdpHoldsAShardOfTheState) {
  SmallModel m;
  m.ranks = 4;
  const plan::Plan plan = plan::lower(m.step(), test::test_scratch);
  std::int64_t shard = 0;
  for (const Unit& u : model::units(m.spec)) shard += u.shard_elements(4);
  std::int64_t state = 0;
  for (std::size_t i = 0; i < plan.graph.storages().size(); ++i) {
    const ir::Storage& s = plan.graph.storages()[i];
    if (s.unit.valid()) state += plan.graph.local_bytes(s);
  }
  EXPECT_EQ(state, 4 * 4 * shard);  // master, two moments and gradient, in fp32
}

TEST(Offsets, RandomLifetimesNeverOverlapAndStayNearTheLiveSum) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Buffer> buffers(1 + random() % 80);
    for (Buffer& b : buffers) {
      b.bytes = 256 * static_cast<std::int64_t>(1 + random() % 40);
      b.first = static_cast<std::int64_t>(random() % 100);
      b.last = b.first + static_cast<std::int64_t>(random() % 30);
    }
    const std::int64_t size = plan::assign_offsets(buffers, plan::MemoryReuse::on);
    for (std::size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_LE(buffers[a].offset + buffers[a].bytes, size);
      for (std::size_t b = 0; b < a; ++b) {
        const bool same_time = buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
        const bool same_bytes = buffers[a].offset < buffers[b].offset + buffers[b].bytes &&
                                buffers[b].offset < buffers[a].offset + buffers[a].bytes;
        EXPECT_FALSE(same_time && same_bytes);
      }
    }
    EXPECT_GE(size, plan::live_peak(buffers));
  }
}

TEST(Hazards, ReadsWaitForWritesAndWritesForBoth) {
  plan::AddressSpace space;
  plan::Clock waits{};
  space.access(0, 100, Lane::compute, 1, plan::Access::write, waits);
  EXPECT_EQ(waits, plan::Clock{});
  space.access(50, 60, Lane::reduce, 1, plan::Access::read, waits);
  EXPECT_EQ(waits, (plan::Clock{1, 0, 0}));
  waits = {};
  space.access(0, 50, Lane::gather, 1, plan::Access::write, waits);  // beside what reduce reads
  EXPECT_EQ(waits, (plan::Clock{1, 0, 0}));
  waits = {};
  space.access(40, 70, Lane::compute, 2, plan::Access::write, waits);
  EXPECT_EQ(waits, (plan::Clock{1, 1, 1}));
}

TEST(Hazards, WaitsThatFollowFromOthersAreDropped) {
  plan::WaitReducer reducer;
  EXPECT_TRUE(reducer.reduce(Lane::compute, 1, {0, 0, 0}).empty());
  EXPECT_EQ(reducer.reduce(Lane::gather, 1, {1, 0, 0}).size(), 1u);
  // gather 1 has waited for compute 1, so waiting for gather 1 is enough.
  const auto waits = reducer.reduce(Lane::reduce, 1, {1, 1, 0});
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0], (plan::Wait{Lane::gather, 1}));
  EXPECT_TRUE(reducer.reduce(Lane::reduce, 2, {1, 1, 0}).empty());
}

TEST(Report, NamesTheLargestHolders) {
  SmallModel m;
  const plan::Plan plan = plan::lower(m.step(), test::test_scratch);
  const std::string text = plan::report(plan);
  EXPECT_NE(text.find("largest holders"), std::string::npos);
  EXPECT_NE(text.find("backward reduce_scatter f32"), std::string::npos);
  EXPECT_NE(text.find(std::to_string(plan.arena_bytes)), std::string::npos);
}

/// Layers of one shape are a row with their number, and what a team reads stands below the storage that it is
/// in.
TEST(Report, CountsUnitsAndWhatATeamReads) {
  SmallModel m;
  m.options.precision.params = DType::bf16;  // so that parameters are no masters
  const auto report_of = [&](int team) {
    m.team = team;
    return plan::report(plan::lower(m.step(), test::test_scratch));
  };
  const std::string alone = report_of(1), shared = report_of(2);
  // The unit has q and the projection, k and v of half as many heads, and the norm, all of width 64. It is
  // padded so that two ranks have shards of one size.
  std::smatch row;
  ASSERT_TRUE(std::regex_search(
      alone, row,
      std::regex("\nunits .*\n  embed +1 .*\n  layers\\.\\*\\.attn +2 +(\\d+) +(\\d+) +(\\d+)\n")))
      << alone;
  constexpr int elements = 64 * (64 + 64 + 32 + 32) + 64;
  EXPECT_EQ(std::stoi(row[1]), elements);
  EXPECT_EQ(std::stoi(row[2]) % 2, 0);
  EXPECT_GE(std::stoi(row[2]), elements);
  EXPECT_EQ(2 * std::stoi(row[3]), std::stoi(row[2]));
  EXPECT_EQ(alone.find("read by the team"), std::string::npos);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(shared, found,
                                std::regex("\n  parameter +(\\d+) .*\n    of it read by the team +(\\d+) ")))
      << shared;
  EXPECT_EQ(found[1], found[2]);
}

}  // namespace
}  // namespace weft
