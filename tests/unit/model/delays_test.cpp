// Tests several ranks as threads of this process, on channels that start and end operations at random times:
// the plan's waits must order what a step computes, and not luck.
#include <gtest/gtest.h>

#include "base/device.hpp"
#include "support/fake_ranks.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"

namespace weft {
namespace {

using test::Curve;
using test::train_on_fakes;

using Sets = std::vector<std::string>;

constexpr const char* on_the_host_only = "fake channels move host memory";

/// The curve that one rank computes alone.
Curve alone(const Deck& deck, int steps) {
  const auto self = comm::make_self_world();
  train::Trainer trainer(deck, *self);
  return test::train_steps(trainer, steps);
}

class Delays : public ::testing::TestWithParam<const char*> {};

TEST_P(Delays, DoNotChangeBits) {
  if (!device_is_host()) GTEST_SKIP() << on_the_host_only;
  const Sets common{"data.global_batch=6", "data.seq=12", std::string("parallel.mode=") + GetParam()};
  for (const char* set :
       {"schedule.prefetch=1", "schedule.prefetch=3", "schedule.regather=never", "precision.params=bf16"}) {
    SCOPED_TRACE(set);
    Sets sets = common;
    sets.emplace_back(set);
    const Deck deck = test::small_deck(sets);
    const Curve expected = alone(deck, 3);
    for (const int ranks : {2, 3}) {
      comm::FakeOptions options;
      options.size = ranks;
      options.seed = static_cast<std::uint64_t>(ranks);
      options.max_delay = std::chrono::microseconds(500);
      for (const Curve& curve : train_on_fakes(deck, options, 3))
        EXPECT_EQ(curve, expected) << ranks << " ranks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Delays, ::testing::Values("ddp", "zero1", "zero2", "fsdp"));

/// The lanes that a data axis alone does not have: messages of a pipe, collectives of the axes tensor and
/// context, and sums over replicas. Hosts of one rank send everything, and pairs of ranks on a host read in
/// each other's memory.
TEST(DelaysOnAMesh, DoNotChangeBits) {
  if (!device_is_host()) GTEST_SKIP() << on_the_host_only;
  constexpr int steps = 2;
  for (const Sets& mesh :
       {Sets{"parallel.mesh={ pipe = 2, data = 2 }", "pipeline.schedule=1f1b"},
        Sets{"parallel.mesh={ pipe = 2, data = 2 }", "pipeline.schedule=zbv", "pipeline.chunks=2"},
        Sets{"parallel.mesh={ data = 2, tensor = 2 }", "schedule.alternate=always"},
        Sets{"parallel.mesh={ data = 2, context = 2 }"}, Sets{"parallel.mesh={ replica = 2, data = 2 }"}}) {
    SCOPED_TRACE(testing::PrintToString(mesh));
    Sets sets{"data.global_batch=8", "data.seq=12", "schedule.bucketing=none"};
    sets.insert(sets.end(), mesh.begin(), mesh.end());
    const Deck deck = test::small_deck(sets);
    comm::FakeOptions options{.size = 4, .seed = 4};
    const Curve expected = train_on_fakes(deck, options, steps).front();
    options.max_delay = std::chrono::microseconds(500);
    for (const int ranks_per_host : {1, 2}) {
      options.ranks_per_host = ranks_per_host;
      for (const Curve& curve : train_on_fakes(deck, options, steps))
        EXPECT_EQ(curve, expected) << ranks_per_host << " ranks a host";
    }
  }
}

}  // namespace
}  // namespace weft
