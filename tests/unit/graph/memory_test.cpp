// Tests the memory plan as a contract: how near arenas are to what is live, what is kept, and what is freed
// when.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/text.hpp"
#include "ops/cost.hpp"
#include "plan/kept.hpp"
#include "plan/offsets.hpp"
#include "plan/report.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using plan::Buffer;
using test::SmallModel;

void expect_apart(std::vector<Buffer> buffers, std::int64_t size) {
  std::sort(buffers.begin(), buffers.end(), [](auto& a, auto& b) { return a.first < b.first; });
  int overlaps = 0;
  for (std::size_t a = 0; a < buffers.size(); ++a) {
    const Buffer& x = buffers[a];
    overlaps += x.offset < 0 || x.offset + x.bytes > size ? 1 : 0;
    for (std::size_t b = a + 1; b < buffers.size() && buffers[b].first <= x.last; ++b) {
      const Buffer& y = buffers[b];
      overlaps += x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes ? 1 : 0;
    }
  }
  EXPECT_EQ(overlaps, 0);
}

double ratio(std::int64_t size, const std::vector<Buffer>& buffers) {
  return static_cast<double>(size) / static_cast<double>(plan::live_peak(buffers));
}

/// A model with the proportions of Llama 3.1 405B, and a 64th of its width.
SmallModel large_model(int layers) {
  SmallModel m;
  m.spec = model::Spec{256, layers, 16, 2, 832, 2048, 1e-5, false};
  m.ranks = 8;
  m.rounds = 3;
  m.batch = 1;
  m.seq = 128;
  m.options.precision.params = DType::bf16;
  return m;
}

class Arena : public testing::TestWithParam<Recompute> {};

TEST_P(Arena, IsWithinTwoPercentOfWhatIsLive) {
  for (const int layers : {8, 40})
    for (const bool blocks : {false, true})
      for (const int ahead : {0, 1, 3}) {
        SmallModel m = large_model(layers);
        m.options.recompute.what = GetParam();
        if (GetParam() == Recompute::selective)
          m.options.recompute.rules = {passes::recompute_rule("swiglu"), passes::recompute_rule("rms_norm")};
        if (blocks) {
          const auto buckets = passes::buckets_by_path(model::units(m.spec), {"layers.*"});
          m.options.buckets = passes::Buckets{buckets, buckets, buckets};
        }
        m.options.order.prefetch = ahead;
        m.options.order.delay = ahead;
        const plan::Plan plan = plan::lower(m.step(), test::test_scratch);
        EXPECT_LE(ratio(plan.arena_bytes, plan.buffers), layers < 20 ? 1.03 : 1.02)
            << layers << " layers, " << (blocks ? "blocks" : "units") << ", " << ahead << " ahead";
        expect_apart(plan.buffers, plan.arena_bytes);
      }
}

INSTANTIATE_TEST_SUITE_P(All, Arena, testing::Values(Recompute::none, Recompute::full, Recompute::selective),
                         [](const auto& info) {
                           return std::string(info.param == Recompute::none   ? "none"
                                              : info.param == Recompute::full ? "full"
                                                                              : "selective");
                         });

/// There are more buffers than in the small plans of the tests above, and lifetimes of all lengths, so that
/// all cases of the interval structure occur.
TEST(Offsets, ManyRandomBuffersNeverOverlap) {
  std::mt19937 random(11);
  for (const std::int64_t longest : {5, 300, 3000, 20000}) {
    std::vector<Buffer> buffers(6000);
    for (Buffer& b : buffers) {
      b.bytes = 256 * static_cast<std::int64_t>(1 + random() % 1000);
      b.first = static_cast<std::int64_t>(random() % 20000);
      b.last = b.first + static_cast<std::int64_t>(random() % longest);
    }
    const std::int64_t size = plan::assign_offsets(buffers, plan::MemoryReuse::on);
    expect_apart(buffers, size);
    EXPECT_LE(ratio(size, buffers), 1.25);
  }
}

const plan::KeptKind& kind(const std::vector<plan::KeptKind>& kinds, const std::string& module) {
  const auto it = std::find_if(kinds.begin(), kinds.end(), [&](auto& k) { return k.module == module; });
  EXPECT_NE(it, kinds.end()) << module;
  return *it;
}
std::vector<std::string> names(const std::vector<plan::KeptValue>& values) {
  std::vector<std::string> list;
  for (const plan::KeptValue& v : values) list.push_back(v.name);
  return list;
}

TEST(Kept, ListsWhatBackwardReadsByKindOfModule) {
  SmallModel m;
  m.rounds = 2;
  const auto kinds = plan::kept_for_backward(m.step());
  const std::int64_t tokens = m.batch * m.seq;
  const plan::KeptKind& ffn = kind(kinds, "layers.*.ffn");
  EXPECT_EQ(ffn.modules, 2);
  EXPECT_EQ(names(ffn.kept), (std::vector<std::string>{"h", "rstd", "gate_up", "act", "out"}));
  EXPECT_EQ(ffn.kept_bytes(), 2 * 4 * tokens * (64 + 1 + 3 * 176 + 64));
  EXPECT_TRUE(ffn.computed.empty());
  const plan::KeptKind& attn = kind(kinds, "layers.*.attn");
  EXPECT_EQ(names(attn.kept),
            (std::vector<std::string>{"h", "rstd", "q_rope", "k_rope", "v", "o", "lse", "out"}));
}

TEST(Kept, RecomputationKeepsAModulesResult) {
  SmallModel m;
  m.options.recompute.what = Recompute::full;
  const auto kinds = plan::kept_for_backward(m.step());
  const plan::KeptKind& ffn = kind(kinds, "layers.*.ffn");
  EXPECT_EQ(names(ffn.kept), std::vector<std::string>{"out"});
  EXPECT_EQ(ffn.kept_bytes(), 2 * 4 * m.batch * m.seq * 64);
  EXPECT_EQ(names(ffn.computed), (std::vector<std::string>{"h", "rstd", "gate_up", "act"}));
  const std::string text = plan::report(plan::lower(m.step(), test::test_scratch));
  EXPECT_NE(text.find("kept from forward for backward"), std::string::npos);
  EXPECT_NE(text.find("layers.*.ffn, computed again"), std::string::npos);
  std::int64_t all = 0;
  for (const plan::KeptKind& k : kinds) all += k.kept_bytes();
  const std::string line = text.substr(text.find("all, of a microbatch"));
  EXPECT_NE(line.substr(0, line.find('\n')).find(bytes_text(all)), std::string::npos) << line;
}

/// The whole gradient of a unit is no longer needed when the next collective of its lane begins. So its bytes
/// serve again before backward ends, and no more than two units' gradients are held at a time.
TEST(Gradients, AreFreedAsTheyAreReduced) {
  for (const auto mode : {ShardMode::zero2, ShardMode::fsdp}) {
    SmallModel m;
    m.spec.layers = 6;
    m.options.shard.mode = mode;
    const plan::Plan plan = plan::lower(m.step(), test::test_scratch);
    std::int64_t backward_end = 0;
    for (std::size_t i = 0; i < plan.graph.nodes().size(); ++i)
      if (plan.graph.nodes()[i].phase == ir::Phase::backward) backward_end = static_cast<std::int64_t>(i);
    std::vector<Buffer> gradients;
    for (const Buffer& b : plan.buffers) {
      if (!b.value.valid()) continue;
      const ir::Value& value = plan.graph.value(b.value);
      if (value.unit.valid() && value.name.ends_with(".grad")) gradients.push_back(b);
    }
    ASSERT_EQ(gradients.size(), 14U);
    for (const Buffer& g : gradients) {
      const std::string name = plan.graph.value(g.value).name;
      // These are the last ones.
      if (name.starts_with("embed") || name.starts_with("layers.0") || name.starts_with("layers.1")) continue;
      EXPECT_LT(g.last, backward_end) << name;
      EXPECT_TRUE(std::any_of(plan.buffers.begin(), plan.buffers.end(), [&](const Buffer& b) {
        return g.last < b.first && b.first <= backward_end && b.offset < g.offset + g.bytes &&
               g.offset < b.offset + b.bytes;
      })) << name;
      EXPECT_LE(std::count_if(gradients.begin(), gradients.end(),
                              [&](const Buffer& o) { return o.first <= g.first && g.first <= o.last; }),
                3)
          << name;
    }
  }
}

/// On one rank a unit's gradient is the sum of the first round as it is, and is made there: its parts follow
/// each other in the sum's storage. Later rounds, and ranks that reduce, need memory for it.
TEST(Gradients, OfTheFirstRoundAreMadeWhereTheirSumBelongs) {
  for (const int rounds : {1, 2}) {
    SmallModel m;
    m.ranks = 1;
    m.rounds = rounds;
    const plan::Plan plan = plan::lower(m.step(), test::test_scratch);
    int first_sums = 0, others = 0;
    for (const ir::Node& node : plan.graph.nodes()) {
      if (node.op != ir::Op::accumulate) continue;
      const ir::ValueId gradient = node.in(ir::operand::accumulate::gradient);
      const plan::Location &from = plan.locations[gradient.index()],
                           &to = plan.locations[node.out(ir::operand::accumulate::sum).index()];
      EXPECT_EQ(to.memory, plan::MemoryKind::storage);
      if (node.round > 0) {
        EXPECT_EQ(from.memory, plan::MemoryKind::arena) << plan.graph.value(gradient).name;
        ++others;
        continue;
      }
      EXPECT_EQ(from.memory, to.memory) << plan.graph.value(gradient).name;
      EXPECT_EQ(from.storage, to.storage) << plan.graph.value(gradient).name;
      EXPECT_EQ(from.offset, to.offset);
      EXPECT_EQ(ops::cost(plan.graph, node).bytes, 0);
      std::int64_t offset = to.offset;
      const ir::Node& join = plan.graph.node(plan.graph.value(gradient).producer);
      for (const ir::ValueId part : join.op == ir::Op::join ? join.inputs : decltype(join.inputs){}) {
        EXPECT_EQ(plan.locations[part.index()].storage, to.storage);
        EXPECT_EQ(plan.locations[part.index()].offset, offset) << plan.graph.value(part).name;
        offset += plan.graph.local_bytes(part);
      }
      ++first_sums;
    }
    EXPECT_EQ(first_sums, 6);  // embedding, two layers of two units, head
    EXPECT_EQ(others, (rounds - 1) * 6);
  }
}

}  // namespace
}  // namespace weft
