// Compares steps that replay a CUDA graph, where there is a GPU, with steps that launch kernel by kernel. On
// the host both walk the plan.
#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "compile/programs.hpp"
#include "exec/compute_lane.hpp"
#include "runtime/planned_memory.hpp"
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

/// Graphs have memory of the device: the training's, and the validation's.
TEST(Replay, ItsGraphsAreInThePlannedMemory) {
  const Mesh mesh = resolve_mesh(test::small_deck(), 1);
  const auto plan_of = [&](const char* layers) {
    const Deck deck = test::small_deck({std::string("model.layers=") + layers});
    return compile::training_plan(
        deck, mesh, [](const ir::Graph&, const ir::Node&) { return 0; }, compile::pass_options(deck, mesh));
  };
  const plan::Plan train = plan_of("2"), evaluate = plan_of("1");
  const auto baseline = [&](const char* cuda_graph, const plan::Plan* other) {
    const Deck deck = test::small_deck({std::string("schedule.cuda_graph=") + cuda_graph});
    return runtime::planned_memory(deck, train, other, 0, 1).baseline;
  };
  const std::int64_t a_kernel = exec::ComputeLane::capturable() ? 10'000 : 0;
  const std::int64_t off = baseline("off", nullptr);
  const auto kernels = [](const plan::Plan& plan) { return std::ssize(plan.instructions); };
  ASSERT_GT(kernels(train), kernels(evaluate));
  EXPECT_EQ(baseline("off", &evaluate), off);
  EXPECT_EQ(baseline("auto", nullptr) - off, a_kernel * kernels(train));
  EXPECT_EQ(baseline("auto", &evaluate) - off, a_kernel * (kernels(train) + kernels(evaluate)));
}

}  // namespace
}  // namespace weft
