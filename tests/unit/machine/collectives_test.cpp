// Tests the estimates of collectives between and beyond what was measured.
#include <gtest/gtest.h>

#include <cmath>

#include "machine/cost_model.hpp"
#include "unit/machine/small_profile.hpp"

namespace weft::test {
namespace {

using ir::Op;
using machine::CostModel;
using machine::Curve;
using machine::Profile;

TEST(CollectiveCost, MeasuredPointsAreThemselves) {
  const CostModel model(small_profile());
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_gather, 2, 1024), 1e-5);
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_gather, 2, 4096), 2e-5);
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_gather, 2, 65536), 1.6e-4);
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::reduce_scatter, 2, 1024), 2e-5);
}

TEST(CollectiveCost, BetweenPointsTheLineOfLogarithms) {
  const CostModel model(small_profile());
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_gather, 2, 2048), std::sqrt(1e-5 * 2e-5));
}

TEST(CollectiveCost, BeyondThePointsLatencyAndBandwidth) {
  const CostModel model(small_profile());
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_gather, 2, 1), 1e-5);
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_gather, 2, 65536 * 16.0), 1.6e-4 * 16);
  EXPECT_EQ(model.collective_seconds(Op::all_gather, 2, 0), 0);
  EXPECT_EQ(model.collective_seconds(Op::all_gather, 1, 4096), 0);
}

TEST(CollectiveCost, NeverFallsWithSize) {
  const Curve noisy({{1024, 5e-5}, {2048, 1e-5}, {4096, 3e-5}, {8192, 9e-5}, {16384, 8e-5}});
  double before = 0;
  for (double bytes = 1; bytes < 1e7; bytes *= 1.1) {
    EXPECT_GE(noisy.seconds(bytes), before) << bytes;
    before = noisy.seconds(bytes);
  }
  EXPECT_DOUBLE_EQ(noisy.seconds(4096), 5e-5);
}

TEST(CollectiveCost, TheWireTypeChoosesTheCurve) {
  const CostModel model(small_profile());
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::reduce_scatter, 2, 65536, DType::bf16), 6.4e-4);
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_gather, 2, 65536, DType::bf16), 1.6e-4)
      << "f32's stands in";
}

TEST(CollectiveCost, OtherRanksScaleTheLatency) {
  const CostModel model(small_profile());
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_gather, 4, 1024), 3e-5);
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_gather, 4, 65536), 1.6e-4 + 2e-5);
  double before = 0;
  for (int ranks = 5; ranks <= 4096; ranks *= 2) {
    EXPECT_GT(model.collective_seconds(Op::all_gather, ranks, 1024), before);
    before = model.collective_seconds(Op::all_gather, ranks, 1024);
  }
}

TEST(CollectiveCost, BetweenNodesItIsTheCurveOfNodes) {
  const CostModel model(small_profile());
  EXPECT_LT(model.collective_seconds(Op::all_gather, 4, 65536), 1e-3) << "four ranks are a node";
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_gather, 16, 65536), 1e-2);
  // Five ranks are nearer to two than to sixteen, but they are not on one host.
  EXPECT_NEAR(model.collective_seconds(Op::all_gather, 5, 65536), 1e-2, 1e-4);
  // An operation's own curve is nearer than another operation's, wherever it was measured.
  EXPECT_LT(model.collective_seconds(Op::reduce_scatter, 8, 65536), 1e-3);
}

TEST(CollectiveCost, WithoutACurveAnothersOrTheLink) {
  const CostModel model(small_profile());
  EXPECT_DOUBLE_EQ(model.collective_seconds(Op::all_reduce, 2, 1024),
                   model.collective_seconds(Op::all_gather, 2, 1024));
  Profile p = small_profile();
  p.collectives.clear();
  EXPECT_DOUBLE_EQ(CostModel(p).collective_seconds(Op::all_gather, 3, 1e6), 2e-6 + 1e-2);
}

TEST(CollectiveCost, SharingIsTheProfiles) {
  const CostModel model(small_profile());
  EXPECT_EQ(model.link_bytes_per_s(), 1e8);
  EXPECT_EQ(model.shared_link_speed(1), 1);
  EXPECT_EQ(model.shared_link_speed(2), 0.5);
  EXPECT_EQ(model.shared_link_speed(4), 0.25) << "four move as much as two";
  EXPECT_FALSE(model.replica_speed().has_value());
  for (const Lane lane : {Lane::gather, Lane::reduce, Lane::replica}) {
    EXPECT_EQ(model.beside_compute_speed(lane), 0.75);
    EXPECT_DOUBLE_EQ(model.stolen_compute_seconds(lane, 1e9), 2);
  }
}

/// A GPU reaches the others of its host by one link and other hosts by another; a processor's ranks have one.
TEST(CollectiveCost, HostsAndTheNetworkAreTwoLinksOfAGpu) {
  Profile p = small_profile();
  p.ranks_per_node = 4;
  p.compute.threads = 0;
  EXPECT_EQ(CostModel(p).link_of({4, 4}), machine::Link::near);
  EXPECT_EQ(CostModel(p).link_of({2, 5}), machine::Link::far);
  p.compute.threads = 1;
  EXPECT_EQ(CostModel(p).link_of({2, 5}), machine::Link::near);
}

TEST(CollectiveCost, ReplicasShareInTheirOwnWay) {
  Profile p = small_profile();
  p.sharing.replica = machine::ReplicaSharing{0.9, 0.8, 1e-9};
  const CostModel model(p);
  EXPECT_EQ(model.shared_link_speed(2), 0.5);
  EXPECT_EQ(model.replica_speed(), 0.9);
  EXPECT_EQ(model.beside_compute_speed(Lane::reduce), 0.75);
  EXPECT_EQ(model.beside_compute_speed(Lane::replica), 0.8);
  EXPECT_DOUBLE_EQ(model.stolen_compute_seconds(Lane::gather, 1e9), 2);
  EXPECT_DOUBLE_EQ(model.stolen_compute_seconds(Lane::replica, 1e9), 1);
}

/// The defaults must agree with what is known of the machines behind them.
TEST(CollectiveCost, DefaultsAreOfTheRightOrder) {
  const CostModel h100(default_profile(machine::DefaultProfile::h100));
  const double gib = 1 << 30;
  EXPECT_NEAR(gib / h100.collective_seconds(Op::all_gather, 8, gib), 350e9, 5e9);
  EXPECT_NEAR(gib / h100.collective_seconds(Op::reduce_scatter, 16, gib), 45e9, 1e9);
  EXPECT_NEAR(h100.collective_seconds(Op::all_gather, 8, 1024), 20e-6, 1e-6);
  // A group with one rank on each host crosses by one network card a host, and so does a message. A group
  // that has all ranks of its hosts crosses by all eight cards.
  EXPECT_NEAR(gib / h100.collective_seconds(Op::all_gather, {64, 505}, gib), 45e9, 3e9);
  EXPECT_NEAR(gib / h100.collective_seconds(Op::send, {2, 9}, gib), 45e9, 3e9);
  EXPECT_NEAR(gib / h100.collective_seconds(Op::all_gather, 64, gib), 350e9, 25e9);
  const CostModel host(default_profile(machine::DefaultProfile::host));
  EXPECT_NEAR(gib / host.collective_seconds(Op::all_gather, 2, gib), 2e9, 1e8);
}

}  // namespace
}  // namespace weft::test
