// Measuring a machine on several ranks: all agree, and a size is the bytes that travel.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/check.hpp"
#include "machine/profile.hpp"
#include "measure/collectives.hpp"
#include "measure/exchanges.hpp"
#include "measure/machine.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/small_deck.hpp"
#include "train/machine_profile.hpp"
#include "unit/train/temporary_directory.hpp"

namespace weft::test {
namespace {

using ir::Op;

/// Every rank's value of `number` is rank 0's.
void expect_same(std::uint64_t number) {
  const std::string mine = std::to_string(number);
  EXPECT_EQ(mine, world().broadcast(mine, 0));
}

TEST(Exchanges, ASizeIsWhatARankSends) {
  train::Session session(Deck{}, world());
  if (session.ranks() == 1) GTEST_SKIP() << "nothing travels";
  const double most = 1 << 21;
  measure::Exchanges x(session, most, comm::ReduceOrder::canonical);
  ASSERT_EQ(x.most(), most);
  x.hold(most);
  std::map<const comm::Channel*, std::uint64_t> before;
  const auto sent_by = [&before](comm::Channel& channel, const comm::Event& event) {
    comm::sync(event);
    const std::uint64_t now = channel.bytes_sent();
    const std::uint64_t sent = now - before[&channel];
    before[&channel] = now;
    return static_cast<double>(sent);
  };
  for (const double bytes : {1024.0, 65536.0, most}) {
    EXPECT_EQ(sent_by(*session.gather(), x.gather(bytes)), x.sent(Op::all_gather, bytes, DType::f32));
    for (const DType wire : {DType::f32, DType::bf16}) {
      EXPECT_EQ(sent_by(*session.reduce(), x.reduce(bytes, wire)), x.sent(Op::reduce_scatter, bytes, wire));
      EXPECT_NEAR(x.sent(Op::reduce_scatter, bytes, wire), bytes, 8);
    }
    const double all = sent_by(*session.reduce(), x.all_reduce(bytes));
    if (bytes > 100e3) {  // not the small way
      EXPECT_NEAR(all, x.sent(Op::all_reduce, bytes, DType::f32), 32);
    }
    EXPECT_NEAR(x.sent(Op::all_reduce, bytes, DType::f32), bytes, 16);
  }
}

TEST(MeasureCollectives, WithoutTimeSmallSizesAreThereAndTheRestIsNoted) {
  train::Session session(Deck{}, world());
  if (session.ranks() == 1) GTEST_SKIP() << "nothing travels";
  measure::Exchanges x(session, 1 << 23, comm::ReduceOrder::canonical);
  const measure::CollectiveSweep sweep = measure_collectives(x, world(), 1, 0);
  ASSERT_EQ(sweep.curves.size(), 4U);
  for (const machine::CollectiveCurve& c : sweep.curves) {
    EXPECT_EQ(c.points.size(), 11U) << "1 KiB to 1 MiB";
    EXPECT_NEAR(c.points.back().bytes, 1 << 20, 16);
  }
  ASSERT_EQ(sweep.skipped.size(), 4U);
  EXPECT_EQ(sweep.skipped[0], "all_gather f32 above 1.00 MiB: not enough time (--seconds)");
}

TEST(MeasureMachine, AllRanksAgree) {
  const Deck deck = small_deck();
  train::Session session(deck, world());
  measure::MachineOptions options;
  options.seconds = 1;
  const measure::Measured m = measure_machine(&deck, session, options);
  expect_same(hash_of(m.profile));
  EXPECT_EQ(machine::parse_profile(print_profile(m.profile), "m.toml"), m.profile);
  EXPECT_EQ(m.profile.ranks_per_node, world().size());
  EXPECT_GT(m.profile.kernels.size(), 20U);
  EXPECT_FALSE(summary(m).empty());
  for (const machine::CollectiveCurve& c : m.profile.collectives) {
    if (world().size() > 1) {
      EXPECT_EQ(c.ranks, world().size());
    }
    EXPECT_GE(c.points.back().bytes, 1 << 19) << name_of(c.op);
  }
  // Kernels' own time is most of a step's; loosely, because the machine does other things, too.
  EXPECT_GT(m.sum_of_kernels, *m.compute_only / 10);
  EXPECT_LT(m.sum_of_kernels, *m.compute_only * 10);
}

TEST(MeasureMachine, SumsOverReplicasAreMeasuredOnTheirChannel) {
  if (world().size() == 1) GTEST_SKIP() << "nothing travels";
  const Deck deck =
      small_deck({"parallel.mesh={ replica = " + std::to_string(world().size()) + ", data = 1 }"});
  train::Session session(deck, world());
  measure::MachineOptions options;
  options.seconds = 1;
  const measure::Measured m = measure_machine(&deck, session, options);
  expect_same(hash_of(m.profile));
  EXPECT_EQ(machine::parse_profile(print_profile(m.profile), "m.toml"), m.profile);
  const auto is_sum = [](const machine::CollectiveCurve& c) { return c.op == Op::all_reduce; };
  ASSERT_EQ(std::count_if(m.profile.collectives.begin(), m.profile.collectives.end(), is_sum), 1);
  const auto sum = std::find_if(m.profile.collectives.begin(), m.profile.collectives.end(), is_sum);
  EXPECT_EQ(sum->ranks, world().size());
  EXPECT_EQ(sum->nodes, 1);
  EXPECT_GE(sum->points.back().bytes, 1 << 19);
  EXPECT_GE(session.replica()->bytes_sent(), (1 << 20) - 64U) << "of its largest size, once at least";
}

/// The other ranks' nodes may have another file under that name, or none.
TEST(MachineProfile, IsRankZeros) {
  const TemporaryDirectory directory;
  machine::Profile p = default_profile(machine::Device::h100);
  p.name = "a machine elsewhere";
  Deck deck;
  deck.schedule.profile = directory / "machine.toml";
  if (world().rank() == 0) std::ofstream(deck.schedule.profile) << print_profile(p);
  EXPECT_EQ(train::machine_profile(deck, world()).name, p.name);
  expect_same(hash_of(train::machine_profile(deck, world())));
}

TEST(MachineProfile, ItsMistakesAreEveryRanks) {
  const TemporaryDirectory directory;
  Deck deck;
  deck.schedule.profile = directory / "machine.toml";
  if (world().rank() == 0) std::ofstream(deck.schedule.profile) << "name = 1\n";
  EXPECT_THROW(train::machine_profile(deck, world()), Error);
}

}  // namespace
}  // namespace weft::test
