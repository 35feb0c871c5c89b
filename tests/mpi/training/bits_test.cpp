// The loss curve and the state are functions of deck and machine: not of the sharding mode, the number of
// ranks, or the schedule.
#include <gtest/gtest.h>

#include "base/check.hpp"
#include "support/curve.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/small_deck.hpp"

namespace weft {
namespace {

using test::Curve;

Curve train(const std::vector<std::string>& sets, comm::World& world) {
  train::Trainer trainer(test::small_deck(sets), world);
  return test::train_steps(trainer, 10);
}

/// What one rank computes alone is the reference for all.
Curve alone(const std::vector<std::string>& sets) {
  const auto self = comm::make_self_world();
  return train(sets, *self);
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
    expect_equal(reference, train(sets, test::world()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Precisions, Bits,
    ::testing::Values(std::vector<std::string>{}, std::vector<std::string>{"precision.params=bf16"},
                      std::vector<std::string>{"precision.params=bf16", "precision.grad_wire=bf16"},
                      std::vector<std::string>{"model.tie_embeddings=true"},
                      std::vector<std::string>{"precision.head_rows=3", "precision.params=bf16"}));

TEST(Bits, DoNotDependOnTheSchedule) {
  const Curve reference = alone({});
  for (const char* set : {"schedule.prefetch=0", "schedule.prefetch=4", "schedule.regather=never",
                          "schedule.disable=[\"order\", \"memory\"]", "schedule.disable=head"}) {
    SCOPED_TRACE(set);
    expect_equal(reference, train({set}, test::world()));
  }
}

TEST(Bits, AreTheSameRunToRun) {
  expect_equal(train({}, test::world()), train({}, test::world()));
}

TEST(Bits, DependOnWhatTheyShould) {
  const Curve reference = alone({});
  for (const char* set :
       {"run.seed=8", "optimizer.eps=1e-6", "optimizer.weight_decay=0.2", "optimizer.clip=0.5",
        "precision.head_rows=3", "model.norm_eps=1e-4", "data.batch=2"})
    EXPECT_NE(alone({set}).hash, reference.hash) << set;
}

TEST(Mesh, RanksThatDoNotDivideTheBatchAreRefused) {
  if (test::world().size() == 1) GTEST_SKIP() << "needs several ranks";
  EXPECT_THROW(train({"data.global_batch=13"}, test::world()), Error);
}

}  // namespace
}  // namespace weft
