#include "search/recompute.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "../graph/small_model.hpp"

namespace weft::search {
namespace {

using test::SmallModel;

struct Levels : ::testing::Test {
  Levels() : costs(default_profile(machine::DefaultProfile::host)) {
    m.spec = {64, 6, 4, 2, 176, 300, 1e-5, false};
    m.seq = 256;
    m.options.precision.params = DType::bf16;
  }
  ir::Graph typed() const { return passes::run(passes::before_sharding(m.options), m.forward()); }
  RecomputeLevels levels() const { return {typed(), costs}; }
  plan::Plan plan(const passes::RecomputeOptions& recompute) const {
    SmallModel other = m;
    other.options.recompute = recompute;
    return plan::lower(other.step(), test::test_scratch);
  }
  double seconds(const plan::Plan& plan) const {
    double sum = 0;
    for (const ir::Node& node : plan.graph.nodes())
      if (!ir::is_collective(node.op)) sum += costs.kernel_seconds(plan.graph, node);
    return sum;
  }
  /// Puts these layers into Float8, and no others.
  void use_float8(int first, int last) {
    m.options.float8 = true;
    m.spec.float8.clear();
    for (int layer = first; layer <= last; ++layer)
      for (const char* part : {".attn", ".ffn"})
        m.spec.float8.push_back("layers." + std::to_string(layer) + part);
  }
  /// Makes the model the second half of a pipe: layers 3 to 5 and the head.
  void use_last_stage() {
    m.pipe = m.rounds = 2;
    m.options.stage =
        passes::StageOptions{PipelineKind::one_f_one_b, {2, 1, 2}, 1, {0, model::first_unit_of_layer(3)}, {}};
  }
  /// What the last level computes again in these layers: "swiglu layers.3.ffn".
  std::set<std::string> computed_again(int first, int last) const {
    const ir::Graph before = typed();
    const RecomputeLevels all(before, costs);
    const ir::Graph graph = passes::recompute(before, all.at(all.count()));
    std::set<std::string> list;
    for (const ir::Node& node : graph.nodes()) {
      if (node.phase != ir::Phase::backward || node.outputs.empty()) continue;
      if (graph.value(node.outputs.front()).name.find(".again") == std::string::npos) continue;
      for (int layer = first; layer <= last; ++layer)
        if (node.module.starts_with("layers." + std::to_string(layer) + "."))
          list.insert(std::string(name_of(node.op)) + " " + node.module);
    }
    return list;
  }
  /// Every level makes a step, and each of its rules names something.
  void check_rules() const {
    const ir::Graph before = typed();
    const RecomputeLevels all(before, costs);
    ASSERT_GE(all.count(), 6);
    for (int level = 0; level <= all.count(); ++level) {
      SCOPED_TRACE(level);
      SmallModel other = m;
      other.options.recompute = all.at(level);
      EXPECT_NO_THROW(other.step());
      EXPECT_FALSE(other.options.recompute.whole_model) << "the deck would be blamed";
      other.options.recompute.whole_model = true;
      EXPECT_NO_THROW(passes::recompute(before, other.options.recompute));
    }
  }
  SmallModel m;
  machine::CostModel costs;
};

TEST_F(Levels, TradeTimeForMemoryStepByStep) {
  const RecomputeLevels all = levels();
  ASSERT_GE(all.count(), 12);
  std::int64_t live = plan(all.at(0)).live_bytes + 1;
  double time = 0;
  for (int level = 0; level <= all.count(); ++level) {
    const plan::Plan p = plan(all.at(level));
    // The recomputation of the last layers stands at the peak itself, and may add a little to it.
    EXPECT_LE(static_cast<double>(p.live_bytes), 1.03 * static_cast<double>(live)) << level;
    EXPECT_GE(seconds(p), time * (1 - 1e-9)) << level;
    live = p.live_bytes;
    time = seconds(p);
  }
}

TEST_F(Levels, BeginWithNothingAndEndWithNoMoreThanFullKeeps) {
  const RecomputeLevels all = levels();
  EXPECT_EQ(all.at(0).what, Recompute::none);
  const plan::Plan least = plan(all.at(all.count())), full = plan({Recompute::full, {}});
  EXPECT_LE(static_cast<double>(least.live_bytes), 1.01 * static_cast<double>(full.live_bytes));
}

TEST_F(Levels, TakeTheCheapestBytesFirst) {
  // A SwiGLU is a pass over memory, and a matmul is not.
  const passes::RecomputeOptions first = levels().at(1);
  ASSERT_FALSE(first.rules.empty());
  for (const passes::RecomputeRule& rule : first.rules) {
    EXPECT_NE(*rule.op, ir::Op::matmul);
    EXPECT_TRUE(rule.module.starts_with("layers.0-0.")) << rule.module;
  }
}

/// Layers in Float8 and others have other operations, and neither keep more because of the others.
TEST_F(Levels, ServeLayersInFloat8AndOthersAlike) {
  const std::set<std::string> bf16 = computed_again(3, 5);
  EXPECT_TRUE(bf16.contains("matmul layers.3.attn"));
  use_float8(0, 5);
  const std::set<std::string> float8 = computed_again(0, 2);
  EXPECT_TRUE(float8.contains("matmul_f8 layers.2.attn"));
  use_float8(0, 2);
  EXPECT_EQ(computed_again(0, 2), float8);
  EXPECT_EQ(computed_again(3, 5), bf16);
  check_rules();
}

/// So it is where the layers of a kind do not follow each other.
TEST_F(Levels, ServeLayersBetweenOthers) {
  const std::set<std::string> bf16 = computed_again(5, 5);
  use_float8(1, 4);
  EXPECT_EQ(computed_again(5, 5), bf16);
  check_rules();
}

/// A stage computes again what the whole model does in its layers: the result of the layer before, which it
/// receives, stands for no kind of module.
TEST_F(Levels, OfAStageAreThoseOfItsLayers) {
  const std::set<std::string> whole = computed_again(3, 5);
  EXPECT_TRUE(whole.contains("swiglu layers.3.ffn"));
  use_last_stage();
  EXPECT_EQ(computed_again(3, 5), whole);
  check_rules();
}

/// The last stage begins in Float8 and ends in bf16.
TEST_F(Levels, OfAStageWithFloat8AreThoseOfItsLayers) {
  use_float8(1, 4);
  const std::set<std::string> whole = computed_again(3, 5);
  EXPECT_TRUE(whole.contains("matmul_f8 layers.3.attn"));
  EXPECT_TRUE(whole.contains("matmul layers.5.attn"));
  use_last_stage();
  EXPECT_EQ(computed_again(3, 5), whole);
  check_rules();
}

}  // namespace
}  // namespace weft::search
