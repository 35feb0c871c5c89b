// Compares what a step's metrics say of its lanes with the plan.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/device.hpp"
#include "plan/report.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/shared_deck.hpp"
#include "train/trainer.hpp"

namespace weft::train {
namespace {

TEST(Lanes, SendWhatThePlanSaysAndAddUp) {
  for (const char* mode : {"ddp", "zero1", "zero2", "fsdp"}) {
    SCOPED_TRACE(mode);
    comm::World& world = test::world();
    Trainer trainer(test::shared_deck(world, {std::string("parallel.mode=") + mode, test::unit_buckets}),
                    world);
    std::int64_t planned = 0, norm = 0;
    for (const auto& [name, total] : plan::collective_totals(trainer.plan())) {
      planned += total.wire_bytes;
      if (name.find("all_reduce") != std::string::npos) norm += total.payload_bytes;
    }
    for (int i = 0; i < 3; ++i) {
      const report::StepMetrics m = trainer.train_step();
      if (world.size() <= 2) {
        EXPECT_EQ(m.sent_bytes, planned);
      } else {  // an all-reduce as short as this is sent whole to every rank
        EXPECT_NEAR(static_cast<double>(*m.sent_bytes), static_cast<double>(planned),
                    static_cast<double>(norm * world.size()));
      }
      // On a device nobody sees when a collective ends, and so not what of it is exposed.
      ASSERT_EQ(m.exposed_gather_s.has_value(), device_is_host() || world.size() == 1);
      EXPECT_LE(m.exposed_gather_s.value_or(0), m.step_s);
      EXPECT_LE(m.exposed_reduce_s.value_or(0), m.step_s);
      EXPECT_LE(*m.gather_s, m.step_s);
      EXPECT_LE(*m.reduce_s, m.step_s);
      EXPECT_LE(*m.comm_s, *m.gather_s + *m.reduce_s + 1e-9) << "each the slowest rank's";
      EXPECT_GE(*m.comm_s + 1e-9, std::max(*m.gather_s, *m.reduce_s));
      EXPECT_EQ(*m.gather_s > 0, world.size() > 1);
      EXPECT_EQ(*m.reduce_s > 0, world.size() > 1);
      if (world.size() == 1) {
        EXPECT_EQ(*m.exposed_gather_s, 0);
        EXPECT_EQ(*m.exposed_reduce_s, 0);
      }
    }
  }
}

TEST(Lanes, SumsOverReplicasHaveTheirOwn) {
  comm::World& world = test::world();
  for (const int replicas : {1, world.size()}) {
    SCOPED_TRACE(replicas);
    Trainer trainer(test::shared_deck(world, {fmt::format("parallel.mesh={{ replica = {}, data = {} }}",
                                                          replicas, world.size() / replicas)}),
                    world);
    for (int i = 0; i < 3; ++i) {
      const report::StepMetrics m = trainer.train_step();
      ASSERT_EQ(m.replica_s.has_value(), replicas > 1);
      ASSERT_EQ(m.exposed_replica_s.has_value(), replicas > 1 && device_is_host());
      EXPECT_EQ(*m.reduce_s > 0, replicas < world.size());
      if (replicas == 1) continue;
      EXPECT_GT(*m.replica_s, 0);
      EXPECT_NEAR(*m.comm_s, *m.replica_s, 1e-9) << "nothing else is under way";
      EXPECT_LE(m.exposed_replica_s.value_or(0), m.step_s);
      EXPECT_EQ(m.exposed_gather_s.value_or(0), 0);
      EXPECT_EQ(m.exposed_reduce_s.value_or(0), 0);
    }
  }
}

}  // namespace
}  // namespace weft::train
