// Tests several ranks as threads of this process, on channels that start and end operations at random times:
// the plan's waits must order what a step computes, and not luck.
#include <gtest/gtest.h>

#include <thread>

#include "base/device.hpp"
#include "comm/host/fake.hpp"
#include "support/curve.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"

namespace weft {
namespace {

using test::Curve;

Curve train(const Deck& deck, comm::World& world) {
  train::Trainer trainer(deck, world);
  return test::train_steps(trainer, 3);
}

/// The curve of each rank. Kokkos runs the ranks' kernels one after another; the collectives' delays overlap
/// them.
std::vector<Curve> train_delayed(const Deck& deck, const comm::FakeOptions& options) {
  auto worlds = comm::make_fake_worlds(options);
  std::vector<Curve> curves(worlds.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < worlds.size(); ++rank)
    threads.emplace_back([&, rank] { curves[rank] = train(deck, *worlds[rank]); });
  for (std::thread& thread : threads) thread.join();
  return curves;
}

class Delays : public ::testing::TestWithParam<const char*> {};

TEST_P(Delays, DoNotChangeBits) {
  if (!device_is_host()) GTEST_SKIP() << "fake channels move host memory";
  const std::vector<std::string> common{"data.global_batch=6", "data.seq=12",
                                        std::string("parallel.mode=") + GetParam()};
  const auto self = comm::make_self_world();
  for (const char* set :
       {"schedule.prefetch=1", "schedule.prefetch=3", "schedule.regather=never", "precision.params=bf16"}) {
    SCOPED_TRACE(set);
    std::vector<std::string> sets = common;
    sets.emplace_back(set);
    const Deck deck = test::small_deck(sets);
    const Curve alone = train(deck, *self);
    for (const int ranks : {2, 3}) {
      comm::FakeOptions options;
      options.size = ranks;
      options.seed = static_cast<std::uint64_t>(ranks);
      options.max_delay = std::chrono::microseconds(500);
      for (const Curve& curve : train_delayed(deck, options)) EXPECT_EQ(curve, alone) << ranks << " ranks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Delays, ::testing::Values("ddp", "zero1", "zero2", "fsdp"));

}  // namespace
}  // namespace weft
