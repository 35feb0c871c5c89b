// Tests pipes: the layers are cut into stages, and no bit of loss, norm and state depends on how.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/reference.hpp"
#include "support/shared_deck.hpp"

namespace weft {
namespace {

using Sets = std::vector<std::string>;
using test::Curve;
using test::world;

constexpr int steps = 4;
/// As many layers as two chunks of each rank need, with the embedding and the head: uneven stages on four.
std::string layers() {
  return fmt::format("model.layers={}", std::max(7, 2 * world().size() - 2));
}

/// By all ranks together.
Curve train(const Sets& sets) {
  train::Trainer trainer(test::shared_deck(world(), sets), world());
  return test::train_steps(trainer, steps);
}

/// The curve that one rank computes alone.
Curve alone(Sets sets = {}) {
  sets.insert(sets.begin(), {test::unit_buckets, layers()});
  return test::reference(sets, steps);
}

Sets with(std::string mesh, Sets more = {}) {
  more.insert(more.begin(), {test::unit_buckets, layers(), std::move(mesh)});
  return more;
}

/// The meshes of pipe and data over the ranks of this test, either axis outermost.
std::vector<std::string> meshes() {
  std::vector<std::string> list;
  for (int pipe = 2; pipe <= world().size(); ++pipe) {
    if (world().size() % pipe != 0) continue;
    const int data = world().size() / pipe;
    list.push_back(fmt::format("parallel.mesh={{ data = {}, pipe = {} }}", data, pipe));
    if (data > 1) list.push_back(fmt::format("parallel.mesh={{ pipe = {}, data = {} }}", pipe, data));
  }
  return list;
}

/// One rank has no pipe: a loop over its meshes would test nothing.
class Pipe : public testing::Test {
 protected:
  void SetUp() override {
    if (meshes().empty()) GTEST_SKIP() << "needs several ranks";
  }
};

TEST_F(Pipe, EveryScheduleHasTheSameBits) {
  const Curve reference = alone();
  EXPECT_NE(reference.losses.back(), reference.losses.front());
  for (const std::string& mesh : meshes())
    for (const Sets& schedule :
         {Sets{"pipeline.schedule=gpipe"}, Sets{"pipeline.schedule=1f1b"}, Sets{"pipeline.schedule=zb_h1"},
          Sets{"pipeline.schedule=interleaved"},
          Sets{"pipeline.schedule=interleaved", "pipeline.chunks=2"}}) {
      SCOPED_TRACE(mesh + testing::PrintToString(schedule));
      EXPECT_EQ(train(with(mesh, schedule)), reference);
    }
}

TEST_F(Pipe, EveryModeHasTheSameBits) {
  const Curve reference = alone();
  for (const std::string& mesh : meshes())
    for (const char* mode : {"ddp", "zero1", "zero2", "fsdp"})
      for (const char* schedule : {"1f1b", "zb_h1"}) {
        SCOPED_TRACE(mesh + mode + schedule);
        EXPECT_EQ(train(with(mesh, {std::string("parallel.mode=") + mode,
                                    std::string("pipeline.schedule=") + schedule})),
                  reference);
      }
}

}  // namespace
}  // namespace weft
