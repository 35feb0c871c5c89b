#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/check.hpp"
#include "golden_plan.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "plan/report.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using test::SmallModel;

const char* name_of(ShardMode mode) {
  switch (mode) {
    case ShardMode::ddp: return "ddp";
    case ShardMode::zero1: return "zero1";
    case ShardMode::zero2: return "zero2";
    case ShardMode::fsdp: return "fsdp";
  }
  return "";
}

TEST(Passes, GoldenPlans) {
  for (const ShardMode mode : test::all_modes) {
    SmallModel m;
    m.spec.layers = 1;
    m.options.shard.mode = mode;
    test::expect_golden(name_of(mode), m.step());
  }
  SmallModel m;
  m.spec.layers = 1;
  m.rounds = 2;
  m.options.precision = {DType::bf16, DType::bf16};
  m.spec.f32_norms = m.options.f32_norms = true;
  test::expect_golden("fsdp_bf16_two_rounds", m.step());
  m.spec.f32_norms = m.options.f32_norms = false;
  m.options.shard.accumulation = Accumulation::once;
  test::expect_golden("fsdp_bf16_two_rounds_reduced_once", m.step());
  m = {};
  m.spec.layers = 1;
  m.options.recompute.what = Recompute::full;
  test::expect_golden("fsdp_recompute_full", m.step());
  m = {};
  const auto by_block = passes::buckets_by_path(model::units(m.spec), {"embed", "layers.*", "head"});
  m.options.buckets = {by_block, by_block, by_block};
  test::expect_golden("fsdp_buckets_of_blocks", m.step());
  m = {};
  m.spec.layers = 1;
  m.replicas = 2;
  test::expect_golden("hsdp", m.step());
  m = {};
  m.spec.layers = 1;
  m.ranks = 4;
  m.team = 2;
  m.options.precision = {DType::bf16, DType::bf16};
  test::expect_golden("fsdp_bf16_two_hosts_of_two", m.step());
  m = {};
  m.spec.layers = 1;
  m.options.rows = true;
  m.options.recompute.what = Recompute::selective;
  m.options.recompute.rules = {passes::recompute_rule("swiglu"), passes::recompute_rule("rms_norm@layers.*")};
  test::expect_golden("fsdp_rows_recompute_selective", m.step());
}

TEST(Passes, AreDeterministic) {
  SmallModel m;
  EXPECT_EQ(ir::print(m.step()), ir::print(m.step()));
}

TEST(Passes, VerifyAfterEachOfThem) {
  for (const ShardMode mode : test::all_modes)
    for (const bool tied : {false, true})
      for (const int ranks : {1, 2, 3}) {
        SmallModel m;
        m.options.shard.mode = mode;
        m.spec.tie_embeddings = tied;
        m.ranks = ranks;
        m.rounds = 2;
        std::vector<std::string> verified, expected;
        m.step([&](const passes::Pass& pass, const ir::Graph&, const ir::Graph& after) {
          EXPECT_NO_THROW(ir::verify(after)) << pass.name;
          verified.push_back(pass.name);
        });
        for (const passes::Pass& pass : passes::training_passes(m.options)) expected.push_back(pass.name);
        EXPECT_GT(expected.size(), 5U);
        EXPECT_EQ(verified, expected);
      }
}

TEST(Passes, OneRankHasNoCollectives) {
  for (const ShardMode mode : test::all_modes) {
    SmallModel m;
    m.ranks = 1;
    m.options.shard.mode = mode;
    const ir::Graph graph = m.step();
    EXPECT_GT(graph.nodes().size(), 50U);
    for (const ir::Node& node : graph.nodes()) EXPECT_FALSE(ir::is_collective(node.op));
  }
}

TEST(Passes, OnlyExactPassesCanBeSwitchedOffByName) {
  passes::PassOptions options;
  options.disable = {"head", "recompute", "bucket", "order", "memory"};
  EXPECT_NO_THROW(passes::check_disabled(options, "deck"));
  options.disable = {"shard"};
  EXPECT_THROW(passes::check_disabled(options, "deck"), Error);
  options.disable = {"ordr"};
  EXPECT_THROW(passes::check_disabled(options, "deck"), Error);
}

/// Compares collectives and bytes of a step with their closed forms: P(u) is a unit's padded size, U the
/// number of units, R that of the rounds.
class Counts : public ::testing::TestWithParam<std::tuple<ShardMode, int, int, DType>> {};

TEST_P(Counts, EqualTheirClosedForms) {
  const auto [mode, ranks, rounds, wire] = GetParam();
  SmallModel m;
  m.options.shard.mode = mode;
  m.options.precision = {DType::bf16, wire};
  m.ranks = ranks;
  m.rounds = rounds;
  const plan::Plan plan = plan::lower(m.step(), test::test_scratch);
  // Elements of all units, and of those that backward needs again: not the embedding, and not the head.
  std::int64_t padded = 0, again = 0;
  const auto units = model::units(m.spec);
  EXPECT_EQ(std::ssize(units), model::unit_count(m.spec));
  for (const Unit& u : units) {
    padded += u.padded_elements(ranks);
    if (u.path != "embed" && u.path != "head") again += u.padded_elements(ranks);
  }
  const auto n = static_cast<std::int64_t>(units.size());
  const bool fsdp = mode == ShardMode::fsdp, ddp = mode == ShardMode::ddp;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> expected;  // count, and payload bytes
  if (fsdp) expected["forward all_gather bf16"] = {n * rounds, 2 * padded * rounds};
  if (fsdp) expected["backward all_gather bf16"] = {(n - 2) * rounds, 2 * again * rounds};
  expected[std::string("backward reduce_scatter ") + (wire == DType::f32 ? "f32" : "bf16")] = {
      n * rounds, static_cast<std::int64_t>(size_of(wire)) * padded * rounds};
  if (ddp) expected["update all_gather f32"] = {n, 4 * padded};
  if (!fsdp && !ddp) expected["update all_gather bf16"] = {n, 2 * padded};
  expected["update all_gather f64"] = {1, 16 * ranks * rounds};
  expected["update all_reduce i64"] = {1, 8 * 68};
  const auto totals = plan::collective_totals(plan);
  for (const auto& [name, total] : totals) {
    ASSERT_TRUE(expected.contains(name)) << name;
    EXPECT_EQ(total.count, expected[name].first) << name;
    EXPECT_EQ(total.payload_bytes, expected[name].second) << name;
    const std::int64_t factor = name == "update all_reduce i64" ? 2 : 1;
    EXPECT_NEAR(static_cast<double>(total.wire_bytes),
                static_cast<double>(factor * total.payload_bytes) * (ranks - 1) / ranks, n * rounds)
        << name;
  }
  EXPECT_EQ(totals.size(), expected.size());
}

INSTANTIATE_TEST_SUITE_P(Modes, Counts,
                         ::testing::Combine(::testing::ValuesIn(test::all_modes), ::testing::Values(2, 3, 6),
                                            ::testing::Values(1, 3),
                                            ::testing::Values(DType::f32, DType::bf16)));

/// How many units one rank gathers in a phase of the step.
std::size_t gathers(const ir::Graph& graph, ir::Phase phase) {
  std::size_t count = 0;
  for (const ir::Node& node : graph.nodes())
    count += node.op == ir::Op::all_gather && node.phase == phase ? node.outputs.size() : 0;
  return count;
}

TEST(Passes, RegatherNeverKeepsTheForwardsCopy) {
  SmallModel m;
  const std::size_t units = model::units(m.spec).size();
  const ir::Graph again = m.step();
  EXPECT_EQ(gathers(again, ir::Phase::forward), units);
  EXPECT_EQ(gathers(again, ir::Phase::backward), units - 2) << "not the embedding, not the head";
  m.options.shard.keep_units = static_cast<int>(units);
  const ir::Graph kept = m.step();
  EXPECT_EQ(gathers(kept, ir::Phase::forward), units);
  EXPECT_EQ(gathers(kept, ir::Phase::backward), 0U);
}

TEST(Passes, TheLastUnitsAreThoseThatStayGathered) {
  SmallModel m;
  const std::size_t units = model::units(m.spec).size();
  for (std::size_t keep = 0; keep <= units; ++keep) {
    m.options.shard.keep_units = static_cast<int>(keep);
    const ir::Graph graph = m.step();
    std::set<std::size_t> again;
    for (const ir::Node& node : graph.nodes())
      if (node.op == ir::Op::all_gather && node.phase == ir::Phase::backward)
        for (const ir::ValueId output : node.outputs) again.insert(graph.value(output).unit.index());
    std::set<std::size_t> expected;
    for (std::size_t unit = 1; unit + std::max<std::size_t>(keep, 1) < units; ++unit) expected.insert(unit);
    EXPECT_EQ(again, expected) << keep << " kept";
  }
}

TEST(Passes, UnitsOfARankAreThoseOfItsGraph) {
  for (const int tensor : {1, 4})
    for (const bool in_stage : {false, true})
      for (const auto& [in_float8, f32_norms, tied] : {std::tuple(false, false, false),
                                                       {true, false, false},
                                                       {false, true, false},
                                                       {true, true, true}}) {
        SCOPED_TRACE(fmt::format("tensor {}, in a stage {}, Float8 {}, norms in fp32 {}, tied {}", tensor,
                                 in_stage, in_float8, f32_norms, tied));
        SmallModel m;
        m.spec.f32_norms = m.options.f32_norms = f32_norms;
        m.spec.tie_embeddings = tied && !in_stage;
        m.tensor = tensor;
        m.spec.heads = 8;
        m.options.partition = tensor > 1;
        m.options.precision.params = DType::bf16;
        m.options.float8 = in_float8;
        if (in_float8) m.spec.float8 = {"layers.1.attn", "layers.1.ffn"};
        if (in_stage) {
          m.pipe = m.rounds = 2;
          m.options.stage = passes::StageOptions{
              PipelineKind::one_f_one_b, {2, 1, 2}, 1, {0, model::first_unit_of_layer(1)}, {}};
        }
        const auto paths = [](const std::vector<Unit>& units) {
          std::vector<std::string> list;
          for (const Unit& unit : units) list.push_back(unit.path);
          return list;
        };
        EXPECT_EQ(paths(passes::units_of_rank(model::units(m.spec), m.options.stage, tensor)),
                  paths(m.step().units()));
      }
}

/// Backward nodes that stand behind the first reduction of their round and are no reductions themselves.
std::size_t nodes_behind_reductions(const ir::Graph& graph) {
  std::set<int> reducing;  // rounds
  std::size_t count = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::reduce_scatter)
      reducing.insert(node.round);
    else
      count += node.phase == ir::Phase::backward && reducing.contains(node.round) ? 1 : 0;
  }
  return count;
}

TEST(Passes, Zero1ReducesAtTheEndOfARoundsBackward) {
  SmallModel m;
  m.rounds = 2;
  const auto reductions = [](const ir::Graph& graph) {
    return std::ranges::count(graph.nodes(), ir::Op::reduce_scatter, &ir::Node::op);
  };
  m.options.shard.mode = ShardMode::zero2;
  const ir::Graph zero2 = m.step();
  EXPECT_GT(nodes_behind_reductions(zero2), 10U) << "it reduces each unit's gradient at once";
  m.options.shard.mode = ShardMode::zero1;
  const ir::Graph zero1 = m.step();
  EXPECT_EQ(nodes_behind_reductions(zero1), 0U);
  EXPECT_EQ(reductions(zero1), 2 * static_cast<std::ptrdiff_t>(model::units(m.spec).size()));
  EXPECT_EQ(reductions(zero1), reductions(zero2));
}

}  // namespace
}  // namespace weft
