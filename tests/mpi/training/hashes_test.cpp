// Tests the hashes of a step's values: they depend on neither ranks, mode nor schedule, name the module where
// two runs part, and leave the run alone.
#include <gtest/gtest.h>

#include <functional>

#include "compare/compare_hashes.hpp"
#include "support/curve.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/shared_deck.hpp"

namespace weft {
namespace {

using Steps = std::vector<compare::StepHashes>;
using Change = std::function<void(runtime::ModelState&)>;

/// The hashes.jsonl of two steps; empty where rank 0 is another process.
Steps hashes(std::vector<std::string> sets, comm::World& world, const Change& change = {}) {
  sets.insert(sets.begin(), {"debug.hash_every=1", test::unit_buckets});
  const Deck deck = test::shared_deck(world, sets);
  train::Trainer trainer(deck, world);
  if (change) {
    change(trainer.state());
    trainer.state().publish();
  }
  test::train_steps(trainer, 2);
  return world.rank() == 0 ? compare::read_hashes(deck.run.dir + "/hashes.jsonl") : Steps{};
}

/// What one rank alone writes: rank 0 computes it, and it is what rank 0 compares.
Steps alone(const std::vector<std::string>& sets, const Change& change = {}) {
  if (test::world().rank() != 0) return {};
  const auto self = comm::make_self_world();
  return hashes(sets, *self, change);
}

/// On rank 0: equal, value by value, and there is no value that only one of the two has.
void expect_equal(const Steps& a, const Steps& b) {
  if (test::world().rank() != 0) return;
  const compare::Comparison c = compare::compare_hashes(a, b);
  EXPECT_EQ(c.steps, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(c.only_in_a, 0U);
  EXPECT_EQ(c.only_in_b, 0U);
  EXPECT_FALSE(c.parting) << "step " << c.parting->step << ": " << c.parting->in_a.value << " made by "
                          << c.parting->in_b.op << ", " << c.parting->differing_after << " more";
}

class Hashes : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Hashes, DoNotDependOnRanksOrMode) {
  const Steps reference = alone(GetParam());
  ASSERT_EQ(reference.size(), test::world().rank() == 0 ? 2U : 0U);
  for (const char* mode : {"ddp", "zero1", "zero2", "fsdp"}) {
    SCOPED_TRACE(mode);
    std::vector<std::string> sets = GetParam();
    sets.push_back(std::string("parallel.mode=") + mode);
    expect_equal(reference, hashes(sets, test::world()));
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, Hashes,
                         ::testing::Values(std::vector<std::string>{},
                                           std::vector<std::string>{"precision.params=bf16",
                                                                    "precision.grad_wire=bf16"},
                                           std::vector<std::string>{"model.tie_embeddings=true"}));

TEST(Hashes, DoNotDependOnTheSchedule) {
  const Steps reference = alone({});
  for (const char* set :
       {"schedule.prefetch=4", "schedule.regather=never", "schedule.disable=[\"order\", \"memory\"]"}) {
    SCOPED_TRACE(set);
    expect_equal(reference, hashes({set}, test::world()));
  }
}

/// Each element counts, wherever it stands: here the last one of a unit, which the last rank has.
TEST(Hashes, NameTheUnitOfOneChangedWeight) {
  const auto with_last_weight = [](float last) {
    return [last](runtime::ModelState& state) {
      std::vector<float> weights(64 * 176, 0.01F);
      weights.back() = last;
      state.set_parameter("layers.1.ffn.w2", weights);
    };
  };
  const Steps reference = alone({}, with_last_weight(0.01F));
  for (const char* mode : {"ddp", "fsdp"}) {
    const Steps changed =
        hashes({std::string("parallel.mode=") + mode}, test::world(), with_last_weight(0.02F));
    if (test::world().rank() != 0) continue;
    const compare::Comparison c = compare::compare_hashes(reference, changed);
    ASSERT_TRUE(c.parting);
    EXPECT_EQ(c.parting->step, 1);
    EXPECT_EQ(c.parting->in_a.value, "master.layers.1.ffn");
    EXPECT_EQ(c.parting->in_a.module, "layers.1.ffn");
  }
}

TEST(Hashes, LeaveTheBitsAlone) {
  const auto curve = [](const char* set) {
    train::Trainer trainer(test::shared_deck(test::world(), {test::unit_buckets, set}), test::world());
    return test::train_steps(trainer, 4);
  };
  const test::Curve without = curve("debug.hash_every=0");
  EXPECT_EQ(without, curve("debug.hash_every=1"));
  EXPECT_EQ(without, curve("debug.hash_every=3"));
}

}  // namespace
}  // namespace weft
