// Tests which arrangements are looked at, how good their estimates are, and that the best of them is found.
#include "advise/advise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "../graph/small_model.hpp"
#include "advise/estimate.hpp"
#include "advise/parallel.hpp"
#include "base/check.hpp"
#include "compile/scheduling.hpp"
#include "compile/stages.hpp"
#include "plan/report.hpp"
#include "support/small_deck.hpp"

namespace weft::advise {
namespace {

/// Hosts of four GPUs: a link of `near` bytes/s inside them, and of `far` between them.
machine::CostModel machine_of(double near, double far, double memory_bytes = 0) {
  machine::Profile p = default_profile(machine::DefaultProfile::host);
  p.ranks_per_node = 4;
  p.compute.threads = 0;
  p.compute.matmul_f32 = p.compute.attention = 1e11;
  p.compute.memory_bytes = memory_bytes;
  p.sharing = {near, 0.5, 0.9, 1e-10};
  p.collectives.clear();
  for (const ir::Op op : {ir::Op::all_gather, ir::Op::reduce_scatter, ir::Op::all_reduce}) {
    p.collectives.push_back(machine::assumed_curve(op, DType::f32, 4, 1, 2e-5, near));
    p.collectives.push_back(machine::assumed_curve(op, DType::f32, 8, 2, 1e-4, far));
  }
  return machine::CostModel(std::move(p));
}

Deck deck_of(std::vector<std::string> sets) {
  for (const char* size : {"model.dim=256", "model.layers=12", "model.heads=8", "model.kv_heads=4",
                           "model.ffn=704", "model.vocab=1024", "data.seq=1024", "data.global_batch=48"})
    sets.insert(sets.begin(), size);
  return test::small_deck(sets);
}

compile::PredictedStep predicted(const Deck& deck, const Arrangement& a, int world,
                                 const machine::CostModel& costs) {
  const Deck changed = arranged(deck, a);
  Mesh mesh = resolve_mesh(changed, world);
  return compile::predicted_step(changed, mesh, test::test_scratch, costs, 0);
}

TEST(Arrangements, AreWhatTheDeckAllowsAndEachOfThemOnce) {
  for (const int world : {1, 2, 6, 8, 24}) {
    SCOPED_TRACE(world);
    const Deck deck = deck_of({});
    const std::vector<Arrangement> all = arrangements(deck, world, 4, {});
    ASSERT_FALSE(all.empty());
    std::set<std::string> seen;
    for (const Arrangement& a : all) {
      std::string text;
      for (const std::string& setting : settings(a)) text += setting + "\n";
      EXPECT_TRUE(seen.insert(text).second) << text;
      const Deck changed = arranged(deck, a);
      EXPECT_NO_THROW({
        const Mesh mesh = resolve_mesh(changed, world);
        accumulation(changed, mesh.batch_ranks());
        compile::layers_of_stages(changed, mesh);
        validate(changed);
      }) << text;
      EXPECT_EQ(arrangement_of(changed, world), a) << text;
      EXPECT_LE(a.size(tensor_axis), 4) << text;
    }
  }
}

/// A count by hand: two ranks share 48 sequences over data, pipe, context or tensor.
TEST(Arrangements, OfTwoRanksAreTheseMeshes) {
  std::set<std::string> meshes;
  for (const Arrangement& a : arrangements(deck_of({}), 2, 4, {})) meshes.insert(mesh_text(a));
  EXPECT_EQ(meshes,
            (std::set<std::string>{"data 2", "pipe 2 x data 1", "data 1 x context 2", "data 1 x tensor 2"}));
}

/// What is kept need not be among what is looked at by itself, and what does not divide is no arrangement.
TEST(Arrangements, OfUnusualDecksAreTheirs) {
  const auto pipes = [](const std::vector<std::string>& sets, const Kept& kept) {
    std::set<int> sizes;
    for (const Arrangement& a : arrangements(deck_of(sets), 8, 4, kept)) sizes.insert(a.size(pipe_axis));
    return sizes;
  };
  EXPECT_EQ(pipes({"pipeline.schedule=gpipe"}, {.schedule = true}), (std::set<int>{1, 2, 4, 8}));
  EXPECT_EQ(pipes({"pipeline.schedule=interleaved", "pipeline.chunks=5"}, {.chunks = true}),
            (std::set<int>{1, 2}));
  EXPECT_EQ(pipes({"pipeline.layers=[3, 3, 3, 3]"}, {}), (std::set<int>{1, 2, 4}))
      << "with two chunks, or with one";
  for (const Arrangement& a : arrangements(deck_of({"data.batch=16"}), 8, 4, {.batch = true}))
    EXPECT_EQ(48 / (a.size(data_axis) * a.size(replica_axis)) % 16, 0) << short_text(a);
}

TEST(Arrangements, KeepWhatTheyAreTold) {
  const Deck deck = deck_of({"parallel.mode=ddp", "data.batch=2", "schedule.recompute=full",
                             "pipeline.schedule=interleaved", "pipeline.chunks=2"});
  const Kept kept = keys_given(deck);
  EXPECT_TRUE(kept.mode && kept.batch && kept.recompute && kept.schedule && kept.chunks);
  for (const Arrangement& a : arrangements(deck, 8, 4, kept)) {
    EXPECT_EQ(a.mode, ShardMode::ddp);
    EXPECT_EQ(a.batch, 2);
    EXPECT_EQ(a.recompute, Recompute::full);
    EXPECT_EQ(a.schedule, PipelineKind::interleaved);
    EXPECT_EQ(a.chunks, 2);
  }
  EXPECT_FALSE(keys_given(deck_of({})).mode);
  EXPECT_THROW(kept_keys({"optimizer.lr"}), Error);
}

/// The estimate goes on from models of two and four layers. Its seconds are near those of the whole model's
/// plan, or the best would not be among those that are planned. Its bytes need only be of the right size,
/// because what is planned is held against the limit again.
TEST(Estimate, IsNearThePlan) {
  const Deck deck = deck_of({});
  for (const double far : {1e8, 3e9}) {
    const machine::CostModel costs = machine_of(2e10, far);
    Estimator estimate(deck, 8, 4, test::test_scratch, costs);
    std::size_t checked = 0, i = 0;
    for (const Arrangement& a : arrangements(deck, 8, 4, {})) {
      if (i++ % 163 != 0) continue;
      SCOPED_TRACE(short_text(a) + " " + schedule_text(a));
      const compile::PredictedStep plan = predicted(deck, a, 8, costs);
      const Estimate e = estimate(a);
      // Stages of a layer each keep a slow link so busy that an order of messages matters, which only a plan
      // has.
      EXPECT_NEAR(e.seconds / plan.seconds, 1, a.chunks > 4 ? 0.5 : 0.35);
      const double bytes = static_cast<double>(e.bytes) / static_cast<double>(plan.bytes);
      EXPECT_GT(bytes, 0.5);
      EXPECT_LT(bytes, 2);
      ++checked;
    }
    EXPECT_GE(checked, 5U);
  }
}

/// Patterns may name layers that the short models of an estimate do not have.
TEST(Estimate, IsOfDecksInFloat8Too) {
  const machine::CostModel costs = machine_of(2e10, 3e9);
  std::set<std::int64_t> bytes;
  for (const char* float8 : {"[]", "[\"layers.*\"]", "[\"layers.1-5\"]"}) {
    const Deck deck = deck_of({"precision.params=bf16", std::string("precision.float8=") + float8});
    Estimator estimate(deck, 4, 4, test::test_scratch, costs);
    for (const Arrangement& a : arrangements(deck, 4, 4, {}))
      if (a.size(data_axis) == 4 && a.mode == ShardMode::fsdp) bytes.insert(estimate(a).bytes);
  }
  EXPECT_GE(bytes.size(), 2U);
}

/// Rules of recomputation may name layers that the short models do not have, or all layers of those and few
/// of the deck's. A layer of the estimate is a mean: rules for half of the layers have half of the effect.
TEST(Estimate, IsOfRulesForSomeLayersToo) {
  const machine::CostModel costs = machine_of(2e10, 3e9);
  const auto estimate = [&](const std::string& rules) {
    const Deck deck = test::small_deck(
        {"model.layers=12", "schedule.recompute=selective", "schedule.recompute_ops=[" + rules + "]"});
    Estimator estimator(deck, 4, 4, test::test_scratch, costs);
    return estimator(arrangement_of(deck, 4));
  };
  const Estimate none = estimate(""), all = estimate("\"@layers.*.ffn\"");
  ASSERT_NE(none.bytes, all.bytes);
  ASSERT_LT(none.seconds, all.seconds);
  const auto at = [](double from, double to, double share) { return from + share * (to - from); };
  for (const auto& [rules, share] :
       {std::pair("\"@layers.9-11.ffn\"", 0.25), std::pair("\"@layers.0-5.ffn\"", 0.5),
        std::pair("\"@layers.0-2.ffn\", \"@*.11.ffn\"", 1.0 / 3), std::pair("\"@layers.0-11.ffn\"", 1.0)}) {
    SCOPED_TRACE(rules);
    const Estimate some = estimate(rules);
    EXPECT_NEAR(static_cast<double>(some.bytes),
                at(static_cast<double>(none.bytes), static_cast<double>(all.bytes), share), 2);
    EXPECT_NEAR(some.seconds, at(none.seconds, all.seconds, share), 1e-6 * none.seconds);
  }
}

/// gpipe holds every microbatch of the step, and the estimate simulates few of them.
TEST(Estimate, HasAllMicrobatchesThatGpipeHolds) {
  const machine::CostModel costs = machine_of(2e10, 3e9);
  const Deck deck =
      test::small_deck({"model.layers=4", "data.seq=64", "data.global_batch=64", "schedule.bucketing=manual",
                        "parallel.mesh={ pipe = 2 }", "pipeline.schedule=gpipe"});
  const Arrangement a = arrangement_of(deck, 2);
  Estimator estimate(deck, 2, 4, test::test_scratch, costs);
  const double bytes =
      static_cast<double>(estimate(a).bytes) / static_cast<double>(predicted(deck, a, 2, costs).bytes);
  EXPECT_GT(bytes, 0.5);
  EXPECT_LT(bytes, 2);
}

/// Over all arrangements, planned one by one. The second time with two thirds of the memory that the best
/// takes.
TEST(Advice, IsTheBestOfAllThatFit) {
  const Deck deck = deck_of({"schedule.bucketing=manual", "data.batch=2", "model.layers=6", "data.seq=512"});
  const Kept kept{.batch = true};
  const std::vector<Arrangement> all = arrangements(deck, 4, 2, kept);
  for (const double far : {1e8, 3e9}) {
    std::vector<compile::PredictedStep> steps(all.size());
    const machine::CostModel unlimited = machine_of(2e10, far);
    for_all(all.size(), [&](std::size_t i) { steps[i] = predicted(deck, all[i], 4, unlimited); });
    double memory = 0;
    for (int limited = 0; limited < (far < 1e9 ? 2 : 1); ++limited) {
      SCOPED_TRACE(std::to_string(far) + " bytes/s, memory " + std::to_string(memory));
      const machine::CostModel costs = machine_of(2e10, far, memory);
      const Advice advice = advise::advise({deck, 4, 2, kept, costs, test::test_scratch});
      std::size_t best = all.size();
      for (std::size_t i = 0; i < all.size(); ++i)
        if ((memory == 0 || static_cast<double>(steps[i].bytes) <= memory) &&
            (best == all.size() || steps[i].seconds < steps[best].seconds))
          best = i;
      ASSERT_LT(best, all.size());
      ASSERT_FALSE(advice.rows.empty());
      const Row& first = advice.rows.front();
      EXPECT_LE(first.step.seconds, 1.02 * steps[best].seconds)
          << short_text(first.arrangement) << ", the best is " << short_text(all[best]) << " "
          << schedule_text(all[best]);
      for (const Row& row : advice.rows) {
        EXPECT_GE(row.step.seconds, first.step.seconds);
        if (memory > 0) {
          EXPECT_LE(static_cast<double>(row.step.bytes), memory);
        }
      }
      memory = static_cast<double>(first.step.bytes) * 2 / 3;
    }
  }
}

TEST(Advice, SaysWhereNothingFitsOrNothingIsPossible) {
  const Deck deck = deck_of({});
  const auto problem = [&](int world, double memory) -> std::string {
    const machine::CostModel costs = machine_of(2e10, 1e9, memory);
    try {
      advise::advise({deck, world, 4, {}, costs, test::test_scratch});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(problem(8, 2e6).substr(0, 65),
            "small.toml: parallel.mesh: no arrangement over 8 ranks fits (the ");
  EXPECT_NE(problem(8, 2e6).find("the limit leaves 1.91 MiB"), std::string::npos) << problem(8, 2e6);
  EXPECT_NE(problem(4099, 0).find("4099 ranks can share data.global_batch = 48 in no way"), std::string::npos)
      << problem(4099, 0);
}

/// A deck's own limit is held against plans, not against the short models, whose arenas reuse nothing.
TEST(Advice, KeepsToTheDecksLimit) {
  const Deck deck = deck_of({"schedule.memory_limit=100MiB", "data.batch=2", "model.layers=6"});
  const machine::CostModel costs = machine_of(2e10, 3e9);
  const Advice advice = advise::advise({deck, 4, 2, {.batch = true}, costs, test::test_scratch});
  EXPECT_GT(advice.fitting, 10U);
  ASSERT_FALSE(advice.rows.empty());
  for (const Row& row : advice.rows) EXPECT_LE(row.step.bytes, 100 << 20);
}

/// A budget recomputes as little as the limit allows, so that plans without the limit say nothing of it. Here
/// plans are first made with one bucket for all layers, which no recomputation lets fit 6400 KiB; a search
/// finds one that does.
TEST(Advice, SpendsABudgetWithinTheDecksLimit) {
  const machine::CostModel costs = machine_of(2e10, 3e9);
  for (const std::int64_t kib : {4400, 6400, 7680}) {
    SCOPED_TRACE(kib);
    // With two ranks, and layers for three stages, only the mesh { data = 2 } is possible.
    const Deck deck = test::small_deck({"parallel.mesh=auto", "parallel.mode=fsdp", "model.layers=12",
                                        "pipeline.layers=[4, 4, 4]", "schedule.buckets=[\"layers\"]",
                                        "schedule.recompute=budget",
                                        "schedule.memory_limit=" + std::to_string(kib) + "KiB"});
    const Question question{deck, 2, 1, keys_given(deck), costs, test::test_scratch};
    if (kib < 5000) {  // less than the state
      EXPECT_THROW(advise::advise(question), Error);
      continue;
    }
    const Advice advice = advise::advise(question);
    ASSERT_EQ(advice.rows.size(), 1U);
    EXPECT_EQ(advice.rows.front().arrangement.recompute, Recompute::budget);
    EXPECT_LE(advice.rows.front().step.bytes, kib << 10);
    EXPECT_EQ(advice.rows.front().next.find("nan"), std::string::npos) << advice.rows.front().next;
  }
}

/// A search may change the order of neighbours: here it lets fsdp keep what it has gathered, and the third
/// becomes the first. For a single row, which auto takes, it must be searched, too.
TEST(Advice, OfOneRowIsTheFirstOfFour) {
  const machine::CostModel costs = machine_of(5e7, 1e7);
  const Deck deck = test::small_deck({"model.layers=4", "data.seq=128", "data.global_batch=48",
                                      "schedule.regather=auto", "schedule.disable=[\"rows\"]"});
  const Kept kept{.schedule = true, .chunks = true, .recompute = true};
  std::set<std::string> first;
  for (const std::size_t rows : {1, 4}) {
    Question question{deck, 2, 1, kept, costs, test::test_scratch};
    question.rows = rows;
    const Advice advice = advise::advise(question);
    ASSERT_EQ(advice.rows.size(), rows);
    first.insert(short_text(advice.rows.front().arrangement));
  }
  EXPECT_EQ(first.size(), 1U) << *first.begin() << " and " << *first.rbegin();
}

TEST(Advice, LeavesAloneWhatTheDeckGivesAndChoosesTheRest) {
  const Deck deck = deck_of({"parallel.mesh=auto", "data.batch=2"});
  const machine::CostModel costs = machine_of(2e10, 1e8);
  const std::vector<std::string> sets = chosen_settings({deck, 8, 4, {}, costs, test::test_scratch});
  EXPECT_TRUE(
      std::any_of(sets.begin(), sets.end(), [](const std::string& s) { return s == "data.batch=2"; }));
  EXPECT_EQ(sets.front().substr(0, 16), "parallel.mesh={ ");
  const Deck chosen = test::small_deck(sets);
  EXPECT_EQ(resolve_mesh(chosen, 8).world(), 8);
}

/// A mistake of the deck is told as it is, and not as a lack of memory.
TEST(Advice, TellsTheDecksMistakes) {
  const auto problem = [&](std::vector<std::string> sets) -> std::string {
    const Deck deck = deck_of(std::move(sets));
    const machine::CostModel costs = machine_of(2e10, 1e9);
    try {
      advise::advise({deck, 4, 4, {}, costs, test::test_scratch});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  for (const auto& [key, value] :
       {std::pair("schedule.disable", "[\"nonsense\"]"), std::pair("precision.float8", "[\"layers.99.ffn\"]"),
        std::pair("schedule.buckets", "[\"lay.*\"]")}) {
    const std::string told = problem({"precision.params=bf16", std::string(key) + "=" + value});
    EXPECT_NE(told.find(std::string(key) + ": "), std::string::npos) << told;
  }
}

/// So are mistakes that only a plan finds, in a short model or in the whole one, whatever the memory.
TEST(Advice, TellsWhatPlansWereRefusedFor) {
  for (const double memory : {0.0, 1e12})
    for (const std::string rule : {"@nonsense", "@layers.99"}) {
      const machine::CostModel costs = machine_of(2e10, 1e9, memory);
      const Deck deck =
          test::small_deck({"parallel.mesh=auto", "schedule.bucketing=manual", "schedule.recompute=selective",
                            "schedule.recompute_ops=[\"" + rule + "\"]"});
      try {
        chosen_arrangement({deck, 2, 1, {}, costs, test::test_scratch});
        ADD_FAILURE() << rule;
      } catch (const Error& e) {
        EXPECT_EQ(std::string(e.what()), "--set: schedule.recompute_ops: '" + rule +
                                             "' names nothing of this model that can be computed again");
      }
    }
}

/// Of several plans that are refused, the error of the best arrangement is told, whichever thread was first:
/// here the plans over one of the axes end later than all others.
TEST(Advice, TellsTheSameErrorWhicheverPlanIsSlow) {
  const machine::CostModel costs = machine_of(2e10, 1e9);
  const Deck deck = test::small_deck({"parallel.mesh=auto", "parallel.mode=fsdp", "model.layers=20",
                                      "pipeline.schedule=1f1b", "pipeline.chunks=1",
                                      "schedule.recompute=none", "schedule.bucketing=manual"});
  const std::vector<std::string_view> axes{tensor_axis, pipe_axis, data_axis};
  std::set<std::string> told;
  for (const std::string_view slow : axes) {
    const auto scratch = [&](const ir::Graph& graph, const ir::Node& node) -> std::int64_t {
      constexpr std::size_t of_short_models = 16;  // units, or fewer
      if (graph.units().size() <= of_short_models) return test::test_scratch(graph, node);
      const auto axis = std::find_if(axes.begin(), axes.end() - 1,
                                     [&](std::string_view name) { return graph.mesh().size(name) > 1; });
      if (*axis == slow && node.phase != ir::Phase::update) return 0;
      throw Error(ExitCode::bad_input, std::string(*axis));
    };
    try {
      chosen_arrangement({deck, 2, 2, {}, costs, scratch});
    } catch (const Error& e) {
      told.insert(e.what());
    }
  }
  EXPECT_EQ(told.size(), 1U);
}

/// What auto may choose has a plan. With zbv a rank has two stages that follow each other, and none of them
/// computes layers of the other one again.
TEST(Advice, ChoosesAmongPlansWithRulesForSomeLayers) {
  const machine::CostModel costs = machine_of(2e10, 3e9);
  const std::vector<std::string> sets{"model.layers=6", "schedule.bucketing=manual",
                                      "schedule.recompute=selective",
                                      "schedule.recompute_ops=[\"@layers.2-5\"]"};
  const Deck deck = test::small_deck(sets);
  EXPECT_EQ(chosen_arrangement({deck, 2, 1, {}, costs, test::test_scratch}).recompute, Recompute::selective);
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::interleaved,
                                  PipelineKind::zb_h1, PipelineKind::zbv}) {
    SCOPED_TRACE(name_of(kind));
    Arrangement a = arrangement_of(deck, 2);
    a.mesh = {{"pipe", 2}, {"data", 1}};
    a.schedule = kind;
    a.chunks = serves_chunks(kind, 2) ? 2 : 1;
    EXPECT_GT(predicted(deck, a, 2, costs).seconds, 0);
  }
}

/// The deck's own arrangement is shown with the reason why it has no plan, unless it is for other ranks.
TEST(Advice, SaysWhyTheDeckHasNoPlan) {
  const machine::CostModel costs = machine_of(2e10, 1e9);
  const Kept kept{.mode = true, .schedule = true, .chunks = true, .recompute = true};
  for (const std::string mesh : {"{ data = 2 }", "{ data = 4 }"}) {
    SCOPED_TRACE(mesh);
    const Deck deck = test::small_deck({"data.seq=256", "data.batch=6", "schedule.bucketing=manual",
                                        "schedule.memory_limit=12MiB", "parallel.mesh=" + mesh});
    const Question question{deck, 2, 1, kept, costs, test::test_scratch};
    const Advice advice = advise::advise(question);
    EXPECT_FALSE(advice.rows.empty());
    const std::string text = to_text(advice, question);
    const std::size_t row = text.find("\n   deck  data 2 ");
    ASSERT_EQ(row != std::string::npos, mesh == "{ data = 2 }") << text;
    if (row == std::string::npos) continue;
    const std::string line = text.substr(row + 1, text.find('\n', row + 1) - row);
    EXPECT_NE(line.find("no plan: --set: schedule.memory_limit: the plan takes "), std::string::npos) << line;
  }
}

/// Decks whose sizes allow one mesh of two ranks, on machines of which one thing is short: what the first row
/// then says. Its tokens/s are those of a rank.
TEST(Advice, SaysWhatLimitsAStepAndWhatWouldHelp) {
  struct Case {
    double links, memory;
    int per_host;
    const char *batch, *layers;
    const char* limited;  // with its share in per cent
    double share;
    const char* next;  // with its gain in per cent
    double gain;
  };
  constexpr double none = 0, fast = 1e15;
  for (const Case& c :
       {Case{1e6, none, 1, "48", "[4, 4, 4]", "gathers and reductions", 100, "links twice as fast: +", 100},
        Case{1e7, none, 2, "1", "[4, 4, 4]", "collectives of tensor", 93, "links twice as fast: +", 90},
        // Three microbatches in a pipe of two places take the time of four, and six of them that of seven.
        Case{fast, none, 1, "3", "[6, 6]", "idle in the pipe", 25, "twice the batch: +", 14},
        Case{fast, none, 1, "48", "[4, 4, 4]", "compute", 0, "", 0},
        // Without recomputation a step takes four fifths of the time, and 128 MiB.
        Case{fast, 105 << 20, 1, "48", "[4, 4, 4]", "compute", 0,
             " MiB a rank for data 2, fsdp, batch 1, recompute none: +", 23}}) {
    SCOPED_TRACE(std::string(c.limited) + ", " + c.next);
    const Deck deck = deck_of({"data.seq=256", "data.global_batch=" + std::string(c.batch),
                               "pipeline.layers=" + std::string(c.layers), "schedule.bucketing=manual"});
    const machine::CostModel costs = machine_of(c.links, c.links, c.memory);
    const Kept kept{
        .mode = true, .schedule = true, .chunks = true, .batch = true, .recompute = c.memory == none};
    const Question question{deck, 2, c.per_host, kept, costs, test::test_scratch};
    const Advice advice = advise::advise(question);
    ASSERT_FALSE(advice.rows.empty());
    const std::string text = to_text(advice, question);
    const std::size_t header = text.find("         mesh "), first = text.find("\n      1  ") + 1;
    ASSERT_NE(header, std::string::npos) << text;
    ASSERT_NE(first, 0U) << text;
    const auto column = [&](const char* name) {
      const std::size_t end = text.find('\n', first), at = first + text.find(name, header) - header;
      return text.substr(std::min(at, end), end - std::min(at, end));
    };
    // A number stands at the end of its column, which is a character wider than this name.
    const double tokens = std::stod(text.substr(first + text.find(" tokens/s", header) - header, 9));
    EXPECT_NEAR(tokens, std::stod(c.batch) * 256 / 2 / advice.rows.front().step.seconds, 0.51) << text;

    const std::string limited = column("limited by"), next = column("what would help");
    EXPECT_TRUE(limited.starts_with(c.limited)) << text;
    if (c.share > 0) {
      EXPECT_NEAR(std::stod(limited.substr(std::string(c.limited).size())), c.share, 5) << text;
    }
    EXPECT_EQ(next.empty(), c.gain == 0) << text;
    const std::size_t gain = next.find(c.next);
    ASSERT_NE(gain, std::string::npos) << text;
    if (c.gain > 0) {
      EXPECT_NEAR(std::stod(next.substr(gain + std::string(c.next).size())), c.gain, 5) << text;
    }
  }
}

/// All places of a pipe take what is said of its fullest, or less.
TEST(PredictedStep, HasTheMemoryOfTheFullestPlace) {
  const machine::CostModel costs = machine_of(2e10, 1e9);
  for (const std::string schedule : {"1f1b", "gpipe", "zb_h1", "interleaved", "zbv"}) {
    SCOPED_TRACE(schedule);
    const bool two = schedule == "interleaved" || schedule == "zbv";
    const Deck deck =
        deck_of({"model.layers=14", "parallel.mesh={ pipe = 8 }", "pipeline.schedule=" + schedule,
                 two ? "pipeline.chunks=2" : "pipeline.chunks=1", "data.batch=1", "data.global_batch=32",
                 "data.seq=256", "schedule.bucketing=manual"});
    const Mesh mesh = resolve_mesh(deck, 8);
    const std::int64_t said = compile::predicted_step(deck, mesh, test::test_scratch, costs, 0).bytes;
    std::int64_t most = 0;
    for (int place = 0; place < 8; ++place) {
      const plan::Plan plan =
          compile::plan_of_distinct_rounds(deck, mesh, test::test_scratch, costs, 0, place);
      most = std::max(most, plan::persistent_bytes(plan) + plan.peak_bytes());
    }
    EXPECT_GE(said, most);
    EXPECT_LT(static_cast<double>(said), 1.05 * static_cast<double>(most));
  }
}

/// What a step of many microbatches takes follows from few of them.
TEST(PredictedStep, OfManyMicrobatchesIsWhatFewSay) {
  const machine::CostModel costs = machine_of(2e10, 1e9);
  for (const std::string schedule : {"1f1b", "zb_h1", "interleaved", "zbv"}) {
    SCOPED_TRACE(schedule);
    const bool two = schedule == "interleaved" || schedule == "zbv";
    const auto step = [&](int microbatches) {
      const Deck deck = deck_of({"parallel.mesh={ pipe = 2 }", "pipeline.schedule=" + schedule,
                                 two ? "pipeline.chunks=2" : "pipeline.chunks=1", "data.batch=1",
                                 "data.global_batch=" + std::to_string(microbatches)});
      return compile::predicted_step(deck, resolve_mesh(deck, 2), test::test_scratch, costs, 0);
    };
    const compile::PredictedStep whole = step(16), more = step(48);  // 16 are planned as they are
    const double round = whole.seconds / (16 + 1.0 / (two ? 2 : 1));
    EXPECT_NEAR(more.seconds / (whole.seconds + 32 * round), 1, 0.03);
    // zbv waits in each round where the times of its kinds of work are not equal.
    if (schedule != "zbv") {
      EXPECT_NEAR(more.idle / whole.idle, 1, 0.25);
    }
    EXPECT_NEAR(static_cast<double>(more.bytes) / static_cast<double>(whole.bytes), 1, 0.01);
  }
}

}  // namespace
}  // namespace weft::advise
