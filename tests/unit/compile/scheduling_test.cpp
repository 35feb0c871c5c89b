// Tests the way from decks to schedules: automatic ones keep to the limits, and are never slower than manual
// ones.
#include "compile/scheduling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../graph/small_model.hpp"
#include "base/check.hpp"
#include "base/per_lane.hpp"
#include "base/text.hpp"
#include "compile/predicted_step.hpp"
#include "compile/programs.hpp"
#include "compile/step_seconds.hpp"
#include "passes/collectives.hpp"
#include "plan/report.hpp"
#include "plan/simulate.hpp"
#include "support/small_deck.hpp"

namespace weft::compile {
namespace {

constexpr int ranks = 4;

machine::CostModel costs(double bytes_per_s, double flops = 1e11) {
  machine::Profile p = default_profile(machine::DefaultProfile::host);
  p.compute.matmul_f32 = p.compute.attention = flops;
  p.sharing = {bytes_per_s, 0.5, 0.9, 1e-10};
  p.collectives.clear();
  for (const ir::Op op : {ir::Op::all_gather, ir::Op::reduce_scatter, ir::Op::all_reduce})
    p.collectives.push_back(
        {op, DType::f32, ranks, 1, {{1024, 1e-4}, {1 << 28, 1e-4 + (1 << 28) / bytes_per_s}}});
  return machine::CostModel(std::move(p));
}

Deck deck_of(std::vector<std::string> sets) {
  for (const char* size :
       {"model.dim=128", "model.layers=6", "model.ffn=352", "model.vocab=1000", "data.seq=64"})
    sets.emplace_back(size);
  return test::small_deck(sets);
}

plan::Plan plan_of(const Deck& deck, const machine::CostModel& machine, std::int64_t baseline = 0) {
  const Mesh mesh = resolve_mesh(deck, ranks);
  Chosen chosen = choose_schedule(deck, mesh, test::test_scratch, machine, baseline);
  return take_plan(chosen, deck, mesh, test::test_scratch);
}
std::int64_t bytes_of(const plan::Plan& plan) {
  return plan::persistent_bytes(plan) + plan.peak_bytes();
}
std::int64_t bytes_of(const std::vector<std::string>& sets) {
  return bytes_of(plan_of(deck_of(sets), costs(1e9)));
}
std::string global_batch(int rounds) {
  return "data.global_batch=" + std::to_string(rounds * ranks * deck_of({}).data.batch);
}
std::string limit(const char* key, std::int64_t bytes) {
  return std::string(key) + ".memory_limit=" + std::to_string(bytes);
}

TEST(ChooseSchedule, AutomaticIsNeverSlowerThanTheOthers) {
  for (const double bytes_per_s : {3e7, 3e8, 3e9}) {
    const machine::CostModel machine = costs(bytes_per_s);
    for (const char* mode : {"fsdp", "zero2"}) {
      SCOPED_TRACE(std::string(mode) + " at " + std::to_string(bytes_per_s));
      const auto seconds = [&](const char* bucketing) {
        const Deck deck =
            deck_of({std::string("parallel.mode=") + mode, std::string("schedule.bucketing=") + bucketing});
        return plan::simulate(plan_of(deck, machine), machine).end;
      };
      const double automatic = seconds("auto");
      for (const char* other : {"manual", "greedy"}) EXPECT_LE(automatic, seconds(other)) << other;
    }
  }
}

/// The seconds of the plan's step, and how many of them are exposed, both as if it had more rounds.
std::pair<double, double> times_of(const plan::Plan& plan, const machine::CostModel& machine,
                                   std::int64_t more_rounds) {
  const StepTimes times = step_times(plan, plan::simulate(plan, machine), more_rounds);
  return {times.seconds, std::accumulate(times.exposed.begin(), times.exposed.end(), 0.0)};
}

TEST(StepSeconds, OfManyRoundsAreThoseOfFourAndTheirPeriod) {
  for (const double bytes_per_s : {3e7, 3e8, 3e9}) {
    const machine::CostModel machine = costs(bytes_per_s);
    for (const char* key : {"schedule.bucketing=none", "schedule.bucketing=manual", "parallel.mode=zero2",
                            "schedule.accumulate=once", "schedule.reduce_delay=16"}) {
      const auto given = [&](int rounds) {
        return plan_of(deck_of({"schedule.bucketing=manual", key, global_batch(rounds)}), machine);
      };
      const auto [seconds, exposed] = times_of(given(4), machine, 5);
      const auto [all, all_exposed] = times_of(given(9), machine, 0);
      EXPECT_NEAR(seconds / all, 1, 0.002) << key << " at " << bytes_per_s;
      EXPECT_NEAR(exposed, all_exposed, 0.01 * all) << key << " at " << bytes_per_s;
      EXPECT_EQ(all, plan::simulate(given(9), machine).end);
    }
  }
}

/// Units that stay gathered are gathered once for all rounds, as if these took turns.
TEST(StepSeconds, OfRoundsThatGatherOnceAreNoTurns) {
  const machine::CostModel machine = costs(3e8);
  const auto given = [&](int rounds) {
    return plan_of(deck_of({"schedule.bucketing=manual", "schedule.regather=never", global_batch(rounds)}),
                   machine);
  };
  EXPECT_FALSE(passes::take_turns(given(6).graph));
  const auto [seconds, exposed] = times_of(given(6), machine, 3);
  const auto [all, all_exposed] = times_of(given(9), machine, 0);
  EXPECT_NEAR(seconds / all, 1, 0.002);
  EXPECT_NEAR(exposed, all_exposed, 0.01 * all);
}

/// A pipe's stage: the plan of a few rounds says what all take, where a link or the compute is what limits.
TEST(StepSeconds, OfManyRoundsInAPipeAreThoseOfAFew) {
  const auto expect_line = [](const std::string& schedule, const std::string& mode, int stages,
                              const machine::CostModel& machine) {
    const std::int64_t rounds = 4 * stages + 14;
    const Deck deck = test::small_deck(
        {"model.layers=" + std::to_string(2 * stages), "schedule.bucketing=manual", "parallel.mode=" + mode,
         "parallel.mesh={ pipe = " + std::to_string(stages) + " }", "pipeline.schedule=" + schedule,
         std::string("pipeline.chunks=") + (schedule == "zbv" ? "2" : "1"), "data.batch=1",
         "data.global_batch=" + std::to_string(2 * rounds)});
    const Mesh mesh = resolve_mesh(deck, 2 * stages);
    for (const int place : {0, stages / 2, stages - 1}) {
      SCOPED_TRACE(schedule + ", place " + std::to_string(place) + " of " + std::to_string(stages));
      const plan::Plan few = plan_of_distinct_rounds(deck, mesh, test::test_scratch, machine, 0, place);
      const int planned = few.graph.rounds();
      EXPECT_LT(planned, rounds);
      const auto [seconds, exposed] = times_of(few, machine, rounds - planned);
      const auto [all, all_exposed] = times_of(
          training_plan(deck, mesh, test::test_scratch, pass_options(deck, mesh, place)), machine, 0);
      EXPECT_NEAR(seconds / all, 1, schedule == "zbv" ? 0.06 : 0.01);
      EXPECT_NEAR(exposed, all_exposed, (schedule == "zbv" ? 0.08 : 0.02) * all);
    }
  };
  for (const char* schedule : {"1f1b", "zb_h1", "zbv"})
    for (const int stages : {2, 5}) {
      expect_line(schedule, "zero2", stages, costs(3e8, 1e9));
      expect_line(schedule, "zero2", stages, costs(3e8, 1e11));
    }
  for (const char* schedule : {"1f1b", "zb_h1", "zbv"}) expect_line(schedule, "fsdp", 2, costs(3e8, 1e9));
}

/// What a step waits for at its ends it waits for once, however many rounds it has. Where compute takes long,
/// that is most of all it waits for.
TEST(PredictedStep, WaitsInManyRoundsAsLongAsItsWholePlan) {
  for (const auto& [bytes_per_s, flops] : {std::pair{3e9, 1e9}, std::pair{3e8, 1e11}, std::pair{3e7, 1e11}}) {
    SCOPED_TRACE(std::to_string(bytes_per_s) + " bytes/s, " + std::to_string(flops) + " FLOP/s");
    const machine::CostModel machine = costs(bytes_per_s, flops);
    const Deck deck = deck_of({"schedule.bucketing=manual", global_batch(20)});
    const Mesh mesh = resolve_mesh(deck, ranks);
    const plan::Plan plan = training_plan(deck, mesh, test::test_scratch, pass_options(deck, mesh));
    const PerLane<double> whole = plan::simulate(plan, machine).exposed;
    const PredictedStep step = predicted_step(deck, mesh, test::test_scratch, machine, 0);
    ASSERT_GT(of_data_lanes(whole), 0);
    EXPECT_NEAR(step.data / of_data_lanes(whole), 1, 0.05);
  }
}

/// The same where microbatches take turns: collectives of the axis tensor are exposed in all rounds.
TEST(PredictedStep, WaitsInTurnsAsLongAsItsWholePlan) {
  for (const double bytes_per_s : {3e7, 3e8}) {
    SCOPED_TRACE(bytes_per_s);
    const machine::CostModel machine = costs(bytes_per_s);
    const Deck deck = deck_of({"schedule.bucketing=manual", "schedule.alternate=always",
                               "parallel.mesh={ data = 2, tensor = 2 }", global_batch(10)});
    const Mesh mesh = resolve_mesh(deck, ranks);
    const plan::Plan plan = training_plan(deck, mesh, test::test_scratch, pass_options(deck, mesh));
    ASSERT_TRUE(passes::take_turns(plan.graph));
    ASSERT_EQ(plan.graph.rounds(), 20);
    const machine::LaneTimes whole = plan::simulate(plan, machine);
    const PredictedStep step = predicted_step(deck, mesh, test::test_scratch, machine, 0);
    EXPECT_NEAR(step.seconds / whole.end, 1, 0.01);
    EXPECT_NEAR(step.tensor, of_tensor_lanes(whole.exposed), 0.02 * whole.end);
    EXPECT_NEAR(step.data, of_data_lanes(whole.exposed), 0.02 * whole.end);
  }
}

/// The line counts the collectives of a round, whatever numbers their buckets have.
TEST(ScheduleText, CountsTheCollectivesOfARound) {
  const machine::CostModel machine = costs(3e8);
  for (const std::string bucketing : {"manual", "greedy"})
    for (const std::string mode : {"fsdp", "zero2"})
      for (const int rounds : {1, 3}) {
        SCOPED_TRACE(bucketing + " " + mode + " " + std::to_string(rounds));
        const Deck deck =
            deck_of({"schedule.bucketing=" + bucketing, "parallel.mode=" + mode, global_batch(rounds)});
        const Mesh mesh = resolve_mesh(deck, ranks);
        Chosen chosen = choose_schedule(deck, mesh, test::test_scratch, machine, 0);
        const plan::Plan plan = take_plan(chosen, deck, mesh, test::test_scratch);
        const auto totals = plan::collective_totals(plan);
        const auto in_a_round = [&](const std::string& name) {
          const auto found = totals.find(name);
          return std::to_string(found == totals.end() ? 0 : found->second.count / rounds);
        };
        const std::string reductions = in_a_round("backward reduce_scatter f32") + " reduce buckets,";
        const std::string counts =
            "schedule: " +
            (mode == "fsdp"
                 ? in_a_round("forward all_gather f32") + " / " + in_a_round("backward all_gather f32") +
                       " gather buckets forward / backward, " + reductions
                 : reductions + " " + std::to_string(totals.at("update all_gather f32").count) +
                       " gather buckets in the update,");
        EXPECT_EQ(schedule_text(chosen.options, plan).substr(0, counts.size()), counts);
      }
}

/// Plans are compared by four rounds, and what these say of the other rounds holds for the whole step.
TEST(ChooseSchedule, ManyRoundsAreWhatFourSay) {
  const std::string rounds = global_batch(7);
  for (const double bytes_per_s : {3e7, 3e8}) {
    const machine::CostModel machine = costs(bytes_per_s);
    for (const char* key : {"parallel.mode=fsdp", "parallel.mode=zero2", "schedule.accumulate=once",
                            "schedule.reduce_delay=16"}) {
      SCOPED_TRACE(std::string(key) + " at " + std::to_string(bytes_per_s));
      const auto seconds = [&](const char* bucketing) {
        const Deck deck = deck_of({std::string("schedule.bucketing=") + bucketing, key, rounds});
        return plan::simulate(plan_of(deck, machine), machine).end;
      };
      const double automatic = seconds("auto");
      for (const char* other : {"manual", "greedy"}) EXPECT_LE(automatic, 1.001 * seconds(other)) << other;
    }
  }
  const std::int64_t least = bytes_of({rounds, "schedule.bucketing=none"});
  EXPECT_LE(bytes_of({rounds, "schedule.bucketing=auto", limit("schedule", least)}), least);
  EXPECT_LE(bytes_of({rounds, "schedule.recompute=budget", limit("schedule", least * 3 / 4)}), least * 3 / 4);
  EXPECT_THROW(bytes_of({rounds, "schedule.bucketing=auto", limit("schedule", least / 4)}), Error);
}

TEST(ChooseSchedule, LimitsHold) {
  // All gathers wait for a slow link, so the search finds large buckets worth their memory. The greedy rules
  // want large buckets where these hide.
  for (const auto& [bucketing, machine] : {std::pair{"schedule.bucketing=auto", costs(1e8)},
                                           std::pair{"schedule.bucketing=greedy", costs(1e10, 1e9)}}) {
    SCOPED_TRACE(bucketing);
    const std::int64_t free = bytes_of(plan_of(deck_of({bucketing}), machine));
    const std::int64_t least = bytes_of({"schedule.bucketing=none"});
    ASSERT_LT(least, free);
    const std::int64_t most = (least + free) / 2, baseline = 1 << 20;
    EXPECT_LE(bytes_of(plan_of(deck_of({bucketing, limit("schedule", most)}), machine)), most);
    EXPECT_LE(bytes_of(plan_of(deck_of({bucketing, limit("run", most + baseline)}), machine, baseline)),
              most);
    EXPECT_LE(
        bytes_of(plan_of(deck_of({bucketing, limit("run", most), limit("schedule", 2 * free)}), machine)),
        most);
    EXPECT_LE(bytes_of(plan_of(deck_of({bucketing, "schedule.recompute=budget", limit("schedule", least)}),
                               machine)),
              least);
    EXPECT_THROW(plan_of(deck_of({bucketing, limit("schedule", least / 2)}), machine), Error);
  }
}

TEST(ChooseSchedule, APlanThatIsGivenKeepsToTheLimitOrIsRefused) {
  for (const char* bucketing : {"schedule.bucketing=none", "schedule.bucketing=manual"}) {
    for (const int rounds : {1, 11}) {
      const std::string batch = global_batch(rounds);
      const std::int64_t bytes = bytes_of({bucketing, batch});
      EXPECT_EQ(bytes_of({bucketing, batch, limit("schedule", bytes)}), bytes);
      EXPECT_THROW(bytes_of({bucketing, batch, limit("schedule", bytes - 1)}), Error);
    }
  }
}

TEST(ChooseSchedule, ABudgetGivesUpPrefetchingAtLast) {
  const std::string full = "schedule.recompute=full", unit = "schedule.bucketing=none";
  const std::int64_t usual = bytes_of({full, unit});
  const std::int64_t least = bytes_of({full, unit, "schedule.prefetch=0", "schedule.reduce_delay=0"});
  ASSERT_LT(least, usual);
  for (const char* key : {"schedule", "run"}) {
    const std::vector<std::string> budget{"schedule.recompute=budget", limit(key, least)};
    for (const char* bucketing : {"none", "auto"}) {
      std::vector<std::string> sets = budget;
      sets.push_back(std::string("schedule.bucketing=") + bucketing);
      EXPECT_LE(bytes_of(sets), least) << key << " " << bucketing;
      sets.insert(sets.end(), {"schedule.prefetch=1", "schedule.reduce_delay=1"});
      EXPECT_THROW(bytes_of(sets), Error) << "the deck's distances stay";
    }
  }
}

/// The line has the limit, what is taken of it, and the key to raise, in units that suit them.
TEST(ChooseSchedule, ARefusalNamesTheLimitAndWhatIsTaken) {
  constexpr std::int64_t baseline = 5 << 20;
  const std::string unit = "schedule.bucketing=none", budget = "schedule.recompute=budget";
  const auto refusal = [&](const std::vector<std::string>& sets) -> std::string {
    try {
      plan_of(deck_of(sets), costs(1e9), baseline);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_input);
      return e.what();
    }
    return "nothing is refused";
  };
  EXPECT_EQ(refusal({unit, limit("schedule", 1000)}),
            "--set: schedule.memory_limit: the plan takes " + bytes_text(bytes_of({unit})) +
                " on a rank, the limit is 1000 B; recompute = budget looks for one that fits, and among "
                "several ranks bucketing = auto does");
  const auto expect_no_plan_fits = [&](const std::string& key, std::int64_t most,
                                       const std::string& limit_is) {
    const std::string text = refusal({unit, budget, limit(key.c_str(), most)}),
                      start = "--set: " + key + ".memory_limit: no plan fits (the smallest found takes ",
                      end = "iB on a rank, state and arena; the limit is " + limit_is +
                            "); use more ranks or a smaller data.batch, or raise " + key + ".memory_limit";
    EXPECT_TRUE(text.starts_with(start) && text.ends_with(end)) << text;
  };
  expect_no_plan_fits("schedule", 1000, "1000 B");
  expect_no_plan_fits("run", 1000, "1000 B, the baseline 5.00 MiB");
  expect_no_plan_fits("run", baseline + (1 << 20) / 4, "5.25 MiB, the baseline 5.00 MiB");
}

TEST(ChooseSchedule, APatternMatchesAUnit) {
  EXPECT_NO_THROW(unit_buckets(deck_of({"schedule.buckets=[\"layers.0-1\", \"layers.*.ffn\"]"})));
  try {
    unit_buckets(deck_of({"schedule.buckets=[\"embed\", \"layer.*\"]"}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(
                  "schedule.buckets: 'layer.*' matches no unit of this model; they are 'embed' to "
                  "'head'"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace weft::compile
