// Tests what a profiler sees of a steady training step: no allocation, and every kernel by name, in the
// region of its module.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/device.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"
#include "train/trainer.hpp"
#include "unit/model/kokkos_tool.hpp"

namespace weft {
namespace {

using test::KokkosTool;

/// Records the third step of the small model, with accumulation.
KokkosTool::Recorded steady_step(const std::vector<std::string>& changes) {
  // The tool comes after the first steps. It would see nothing of a replayed graph.
  std::vector<std::string> sets{"data.global_batch=3", "schedule.cuda_graph=off"};
  sets.insert(sets.end(), changes.begin(), changes.end());
  const auto world = comm::make_self_world();
  train::Trainer trainer(test::small_deck(sets), *world);
  trainer.train_step();
  trainer.train_step();
  const KokkosTool tool;
  trainer.train_step();
  EXPECT_EQ(tool.open_regions(), 0);
  return tool.recorded();
}

bool is_copy(const KokkosTool::Kernel& kernel) {
  return kernel.name == "weft::memory::copy";
}

class Tool : public ::testing::TestWithParam<const char*> {
 protected:
  const KokkosTool::Recorded recorded_ = steady_step({std::string("precision.params=") + GetParam()});
};

TEST_P(Tool, SeesNoAllocation) {
  ASSERT_FALSE(recorded_.kernels.empty());
  EXPECT_EQ(recorded_.allocations, std::vector<std::string>{});
}

TEST_P(Tool, SeesNames) {
  ASSERT_FALSE(recorded_.kernels.empty());
  ASSERT_FALSE(recorded_.fences.empty());
  for (const KokkosTool::Kernel& kernel : recorded_.kernels)
    EXPECT_TRUE(kernel.name.starts_with("weft::")) << kernel.name;
  for (const std::string& fence : recorded_.fences)
    // The second kind is made for the tool's sake.
    EXPECT_TRUE(fence.starts_with("weft::") || fence.starts_with("Kokkos::Tools::")) << fence;
}

/// Inputs are copied before the plan runs, outside of any module.
TEST_P(Tool, SeesModules) {
  std::set<std::string> modules;
  for (const KokkosTool::Kernel& kernel : recorded_.kernels) {
    EXPECT_EQ(kernel.depth, is_copy(kernel) ? 0 : 1) << kernel.name << " in " << kernel.region;
    if (!is_copy(kernel)) modules.insert(kernel.region);
  }
  std::set<std::string> expected{"embed",        "layers.0.attn", "layers.0.ffn", "layers.1.attn",
                                 "layers.1.ffn", "head",          "loss",         "clip"};
  if (GetParam() == std::string("bf16")) expected.insert("whole");  // of norms in fp32
  EXPECT_EQ(modules, expected);
}

TEST_P(Tool, SeesEachKernelWhereItBelongs) {
  std::map<std::string, std::map<std::string, int>> launches;  // by kernel and region
  for (const KokkosTool::Kernel& kernel : recorded_.kernels) ++launches[kernel.name][kernel.region];
  using ByRegion = std::map<std::string, int>;
  if (device_is_host() || GetParam() == std::string("f32")) {  // else cuDNN computes it
    EXPECT_EQ(launches["weft::attention::forward"], (ByRegion{{"layers.0.attn", 3}, {"layers.1.attn", 3}}));
  }
  EXPECT_EQ(launches["weft::swiglu::backward"], (ByRegion{{"layers.0.ffn", 3}, {"layers.1.ffn", 3}}));
  EXPECT_EQ(launches["weft::embedding::forward"], (ByRegion{{"embed", 3}}));
  EXPECT_EQ(launches["weft::cross_entropy::forward"], (ByRegion{{"head", 3}}));
  EXPECT_EQ(launches["weft::clip_scale::scale"], (ByRegion{{"clip", 1}}));
  ByRegion updates{{"embed", 1},         {"layers.0.attn", 1}, {"layers.0.ffn", 1},
                   {"layers.1.attn", 1}, {"layers.1.ffn", 1},  {"head", 1}};
  if (GetParam() == std::string("bf16")) updates["whole"] = 1;
  EXPECT_EQ(launches["weft::adamw::step"], updates);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Tool, ::testing::Values("f32", "bf16"));

/// An empty list of allocations means that there were none.
TEST(KokkosTool, HearsAllocations) {
  const KokkosTool tool;
  test::allocate_with_kokkos("label");
  EXPECT_EQ(tool.recorded().allocations, std::vector<std::string>{"label"});
}

}  // namespace
}  // namespace weft
