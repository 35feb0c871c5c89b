// Tests how layers are dealt out over the stages of a pipe, and what `weft plan` says of a pipe.
#include "compile/stages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "../graph/small_model.hpp"
#include "base/check.hpp"
#include "compile/planned_pipe.hpp"
#include "compile/scheduling.hpp"
#include "plan/report.hpp"
#include "support/small_deck.hpp"

namespace weft::compile {
namespace {

using Layers = std::vector<std::int64_t>;

Mesh pipe_of(int ranks) {
  return Mesh({{"pipe", ranks}, {"data", 1}});
}
Layers layers(const Deck& deck, int ranks) {
  return layers_of_stages(deck, pipe_of(ranks));
}
std::string refusal(const std::vector<std::string>& sets, int ranks) {
  try {
    layers(test::small_deck(sets), ranks);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

/// Table 4 of the Llama 3 paper: 126 layers over 16 stages, one layer less in the first stage and in the
/// last.
TEST(Stages, BalanceTheLayersOfLlama405B) {
  const Deck deck = parse_deck(WEFT_SOURCE_DIR "/inputs/llama3_405b.toml");
  const Layers found = layers(deck, 16);
  EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::int64_t{0}), 126);
  EXPECT_EQ(*std::max_element(found.begin(), found.end()), 8);
  EXPECT_LT(found.back(), 8) << "the head counts";
}

TEST(Stages, AWideHeadTakesLayersOffTheLastStage) {
  const std::vector<std::string> sets{"model.layers=8", "model.vocab=20000"};
  const Layers found = layers(test::small_deck(sets), 2);
  EXPECT_GT(found.front(), found.back());
}

TEST(Stages, ARefusalNamesTheKeyAndTheNumbers) {
  EXPECT_EQ(refusal({}, 4), "");
  EXPECT_EQ(refusal({}, 5).substr(0, 70),
            "small.toml: parallel.mesh: 5 ranks of 1 chunks are 5 stages, and the m");
  EXPECT_NE(refusal({"pipeline.schedule=interleaved", "pipeline.chunks=3"}, 2)
                .find("pipeline.chunks: 2 ranks of 3"),
            std::string::npos);
  EXPECT_EQ(refusal({"pipeline.layers=[1, 1]"}, 3),
            "--set: pipeline.layers: layers of 2 stages, but 3 ranks of 1 chunks have 3");
  EXPECT_NE(refusal({"pipeline.layers=[1, 0, 1]"}, 3).find("stage 1 has no layer"), std::string::npos);
  EXPECT_NE(refusal({"pipeline.layers=[1, 2]"}, 2).find("3 layers in all, the model has 2"),
            std::string::npos);
}

TEST(PlannedPipe, HasEachPlaceOnce) {
  const Deck deck = test::small_deck(
      {"model.layers=6", "pipeline.schedule=interleaved", "pipeline.chunks=2", "schedule.bucketing=none"});
  const machine::CostModel costs(default_profile(machine::DefaultProfile::host));
  Chosen middle = choose_schedule(deck, pipe_of(3), test::test_scratch, costs, 0, 1);
  const plan::Plan known = take_plan(middle, deck, pipe_of(3), test::test_scratch);
  const PlannedPipe pipe = planned_pipe(deck, pipe_of(3), test::test_scratch, costs, 0, {known, 1});
  ASSERT_EQ(pipe.ranks.size(), 3u);
  std::int64_t parameters = 0;
  std::set<std::uint64_t> hashes;
  double busy = 0;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    parameters += pipe.ranks[rank].parameters;
    hashes.insert(pipe.ranks[rank].hash.value());
    busy = std::max(busy, pipe.timeline.busy[rank]);
  }
  EXPECT_EQ(parameters, parameter_count(deck.model));
  EXPECT_EQ(hashes.size(), 3u);
  EXPECT_EQ(pipe.ranks[1].hash, known.hash);
  EXPECT_GT(pipe.timeline.end, busy);
  EXPECT_EQ(pipe.ranks.front().stages.substr(0, 8), "embed, 0");
  EXPECT_EQ(pipe.ranks.back().stages.substr(pipe.ranks.back().stages.size() - 4), "head");
  const std::string text = to_text(pipe);
  for (const char* line : {"pipe: interleaved, 3 ranks of 2 stages each, 12 microbatches",
                           "\n  rank 0   F0   F1   F2   F0b", "in flight", "embed, 0"})
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
}

/// Few microbatches stand for many: they take as much memory, but for losses, in every place and
/// with every schedule that bounds what is under way.
TEST(PlannedPipe, FewMicrobatchesTakeTheMemoryOfMany) {
  const machine::CostModel costs(default_profile(machine::DefaultProfile::host));
  for (const char* schedule : {"1f1b", "zb_h1"})
    for (const char* bucketing : {"none", "auto"}) {
      SCOPED_TRACE(schedule + std::string(" ") + bucketing);
      const Deck deck = test::small_deck({"model.layers=6", "data.global_batch=40",
                                          std::string("pipeline.schedule=") + schedule,
                                          std::string("schedule.bucketing=") + bucketing});
      const auto whole = [&](int place) {
        Chosen chosen = choose_schedule(deck, pipe_of(3), test::test_scratch, costs, 0, place);
        return take_plan(chosen, deck, pipe_of(3), test::test_scratch);
      };
      const plan::Plan first = whole(0);
      const PlannedPipe pipe = planned_pipe(deck, pipe_of(3), test::test_scratch, costs, 0, {first, 0});
      EXPECT_EQ(pipe.planned_microbatches, 11);
      EXPECT_EQ(pipe.schedule.sizes.microbatches, 40);
      EXPECT_EQ(pipe.ranks[0].hash, first.hash);
      for (int place = 1; place < 3; ++place) {
        const PlannedRank& rank = pipe.ranks[static_cast<std::size_t>(place)];
        EXPECT_FALSE(rank.hash);
        const plan::Plan all = whole(place);
        EXPECT_EQ(rank.state_bytes, plan::persistent_bytes(all)) << place;
        constexpr std::int64_t losses = (40 - 11) * 16 + 48;  // of the other microbatches, on a cache line
        EXPECT_LE(all.peak_bytes() - rank.arena_bytes, losses) << place;
        EXPECT_GE(all.peak_bytes(), rank.arena_bytes) << place;
      }
      EXPECT_NE(to_text(pipe).find("planned with 11 of the 40 microbatches"), std::string::npos);
    }
}

}  // namespace
}  // namespace weft::compile
