#include "search/recompute.hpp"

#include <gtest/gtest.h>

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
  RecomputeLevels levels() const {
    return {passes::run(passes::before_sharding(m.options), m.forward()), costs};
  }
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

}  // namespace
}  // namespace weft::search
