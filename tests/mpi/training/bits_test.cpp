// Tests that loss curve and state depend on deck and machine alone: not on the sharding mode, the number of
// ranks, or the schedule.
#include <gtest/gtest.h>

#include "base/check.hpp"
#include "kernels/matmul.hpp"
#include "plan/report.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/reference.hpp"
#include "support/shared_deck.hpp"

namespace weft {
namespace {

using test::Curve;

/// The moments are zero in the first, and are what earlier steps left from the third on.
constexpr int steps = 5;

/// By all ranks together.
Curve train(const std::vector<std::string>& sets) {
  train::Trainer trainer(test::shared_deck(test::world(), sets), test::world());
  return test::train_steps(trainer, steps);
}

/// The curve that one rank computes alone; it is the reference for all.
Curve alone(const std::vector<std::string>& sets) {
  return test::reference(sets, steps);
}

void expect_equal(const Curve& a, const Curve& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  EXPECT_EQ(a.hash, b.hash);
}

class Bits : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Bits, DoNotDependOnRanksOrMode) {
  const Curve reference = alone(GetParam());
  EXPECT_NE(reference.losses.back(), reference.losses.front());
  for (const char* mode : {"ddp", "zero1", "zero2", "fsdp"}) {
    SCOPED_TRACE(mode);
    std::vector<std::string> sets = GetParam();
    sets.push_back(std::string("parallel.mode=") + mode);
    expect_equal(reference, train(sets));
  }
}

using Sets = std::vector<std::string>;

/// The first and the last have the buckets that are found for each mode, the others one a unit.
INSTANTIATE_TEST_SUITE_P(
    Precisions, Bits,
    ::testing::Values(Sets{}, Sets{test::unit_buckets, "precision.f32_products=plain"},
                      Sets{test::unit_buckets, "precision.params=bf16", "precision.norms=bf16"},
                      Sets{test::unit_buckets, "precision.params=bf16", "precision.grad_wire=bf16"},
                      Sets{test::unit_buckets, "model.tie_embeddings=true"},
                      Sets{test::unit_buckets, "schedule.disable=share"},
                      Sets{test::unit_buckets, "precision.head_rows=3", "precision.params=bf16"},
                      Sets{test::unit_buckets, "model.tie_embeddings=true", "precision.params=bf16"},
                      Sets{"schedule.disable=share", "precision.params=bf16", "precision.grad_wire=bf16"}));

TEST(Bits, ProductsOfF32AreMadeAsTheDeckSays) {
  if (test::world().size() > 1) GTEST_SKIP() << "one rank's curves are compared where there is one rank";
  const bool two_ways = kernels::product_method(DType::f32, F32Products::split) !=
                        kernels::product_method(DType::f32, F32Products::plain);
  for (const char* head : {"schedule.disable=[]", "schedule.disable=[\"head\"]"})
    EXPECT_EQ(alone({head}).hash != alone({head, "precision.f32_products=plain"}).hash, two_ways);
}

TEST(Bits, DoNotDependOnTheSchedule) {
  const Curve reference = alone({});
  for (Sets sets :
       {Sets{"schedule.prefetch=0"}, Sets{"schedule.prefetch=4", "schedule.reduce_delay=3"},
        Sets{"schedule.prefetch=4", "schedule.prefetch_bytes=64KiB"}, Sets{"schedule.regather=never"},
        Sets{"schedule.disable=[\"order\", \"memory\"]"}, Sets{"schedule.disable=head"},
        Sets{"schedule.disable=residual"}, Sets{"schedule.recompute=full"},
        Sets{"schedule.recompute=full", "schedule.regather=never"},
        Sets{"schedule.recompute=selective",
             "schedule.recompute_ops=[\"rms_norm\", \"matmul@layers.0.*\", \"rope_split\"]"},
        Sets{"schedule.bucketing=manual"},
        Sets{"schedule.bucketing=manual", "schedule.buckets=[\"layers\"]", "schedule.reduce_delay=0"},
        Sets{"schedule.bucketing=manual", "schedule.recompute=full", "schedule.prefetch=2"},
        Sets{"schedule.disable=share"}, Sets{"schedule.disable=[\"share\", \"rows\"]"},
        Sets{"schedule.disable=share", "schedule.bucketing=manual", "schedule.prefetch=2"},
        Sets{"schedule.bucketing=greedy"}, Sets{"schedule.bucketing=auto", "schedule.regather=auto"}}) {
    SCOPED_TRACE(::testing::PrintToString(sets));
    sets.insert(sets.begin(), test::unit_buckets);
    expect_equal(reference, train(sets));
  }
}

/// A single reduction of a rank's sum adds the same terms in another order.
TEST(Bits, ReducingOnceChangesTheOrderOfTheSumOnly) {
  const Curve each = alone({}), once = train({"schedule.accumulate=once"});
  ASSERT_EQ(each.losses.size(), once.losses.size());
  for (std::size_t i = 0; i < each.losses.size(); ++i) EXPECT_NEAR(each.losses[i], once.losses[i], 1e-5);
  EXPECT_EQ(each.hash == once.hash, test::world().size() == 1);
  expect_equal(once, train({"schedule.accumulate=once", "parallel.mode=zero1", "schedule.bucketing=manual"}));
}

TEST(Bits, FusingChangesRoundingOnly) {
  const Curve fused = alone({}), plain = train({"schedule.disable=fuse"});
  ASSERT_EQ(fused.losses.size(), plain.losses.size());
  for (std::size_t i = 0; i < fused.losses.size(); ++i) EXPECT_NEAR(fused.losses[i], plain.losses[i], 1e-5);
  EXPECT_NE(fused.hash, plain.hash) << "nothing was fused";
  expect_equal(plain, train({"schedule.disable=[\"fuse\", \"residual\"]", "schedule.recompute=full"}));
}

/// The bytes that a plan takes on a rank.
std::int64_t planned(const std::vector<std::string>& sets) {
  const train::Trainer trainer(test::shared_deck(test::world(), sets), test::world());
  return trainer.plan().peak_bytes() + plan::persistent_bytes(trainer.plan());
}

TEST(Bits, DoNotDependOnABudget) {
  const std::int64_t most = planned({"schedule.bucketing=none"}),
                     least = planned({"schedule.bucketing=none", "schedule.recompute=full"});
  const std::int64_t limit = (most + least) / 2;
  ASSERT_LT(least, most);
  const Sets sets{"schedule.recompute=budget", "schedule.memory_limit=" + std::to_string(limit)};
  EXPECT_LE(planned(sets), limit);
  expect_equal(alone({}), train(sets));
  EXPECT_THROW(train({"schedule.recompute=budget", "schedule.memory_limit=" + std::to_string(least / 2)}),
               Error);
}

TEST(Bits, AreTheSameRunToRun) {
  expect_equal(train({test::unit_buckets}), train({test::unit_buckets}));
}

TEST(Bits, DependOnWhatTheyShould) {
  if (test::world().size() > 1) GTEST_SKIP() << "one rank's curves are compared where there is one rank";
  const Curve reference = alone({});
  for (const char* set :
       {"run.seed=8", "optimizer.eps=1e-6", "optimizer.weight_decay=0.2", "optimizer.clip=0.5",
        "precision.head_rows=3", "model.norm_eps=1e-4", "data.batch=2"})
    EXPECT_NE(alone({set}).hash, reference.hash) << set;
}

TEST(Mesh, RanksThatDoNotDivideTheBatchAreRefused) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs several ranks";
  EXPECT_THROW(train({"data.global_batch=13"}), Error);
}

}  // namespace
}  // namespace weft
