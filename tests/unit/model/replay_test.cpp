// Compares steps that replay a CUDA graph, where there is a GPU, with steps that launch kernel by kernel. On
// the host both walk the plan.
#include <gtest/gtest.h>

#include "exec/compute_lane.hpp"
#include "support/curve.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"

namespace weft {
namespace {

/// Each step has other tokens and another learning rate. In the fourth one a tap looks at the values, so that
/// walked and replayed steps alternate.
test::Curve curve_of(const std::string& params, const std::string& cuda_graph) {
  const auto world = comm::make_self_world();
  train::Trainer trainer(
      test::small_deck({"data.global_batch=3", "optimizer.decay=cosine", "debug.hash_every=4",
                        "precision.params=" + params, "schedule.cuda_graph=" + cuda_graph}),
      *world);
  const bool replays = cuda_graph == "auto" && exec::ComputeLane::capturable();
  EXPECT_EQ(trainer.capture() == exec::Capture::captured, replays) << cuda_graph;
  return test::train_steps(trainer, 6);
}

TEST(Replay, HasTheBitsOfAWalk) {
  for (const char* params : {"f32", "bf16"}) EXPECT_EQ(curve_of(params, "auto"), curve_of(params, "off"));
}

}  // namespace
}  // namespace weft
