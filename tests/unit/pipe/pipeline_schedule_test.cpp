// Tests pipeline schedules: every one of up to 8 ranks, 4 chunks and 24 microbatches is proved, and idles as
// long as its formula says. A schedule with any change is refused.
#include "pipe/pipeline_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <stdexcept>

#include "base/check.hpp"

namespace weft::pipe::test {
namespace {

constexpr PipelineKind kinds[] = {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::interleaved,
                                  PipelineKind::zb_h1, PipelineKind::zbv};

void for_each_schedule(const std::function<void(const PipelineSchedule&)>& visit) {
  for (const PipelineKind kind : kinds)
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int chunks = 1; chunks <= 4; ++chunks)
        for (int microbatches = 1; microbatches <= 24; ++microbatches)
          if (serves_chunks(kind, chunks)) visit(make_pipeline_schedule(kind, {ranks, chunks, microbatches}));
}

std::string name_of(const PipelineSchedule& s) {
  return std::string(name_of(s.kind)) + ", ranks " + std::to_string(s.sizes.ranks) + ", chunks " +
         std::to_string(s.sizes.chunks) + ", microbatches " + std::to_string(s.sizes.microbatches);
}

TEST(PipelineSchedules, EachOneIsProved) {
  int seen = 0;
  for_each_schedule([&](const PipelineSchedule& s) {
    EXPECT_NO_THROW(check(s)) << name_of(s);
    ++seen;
  });
  EXPECT_EQ(seen, 8 * 24 * (3 + 4 + 1));
}

/// Idle time of a rank in a step, after the papers: (P - 1) times a stage's forward and backward. zb_h1 saves
/// a weight gradient twice in each. Where microbatches are fewer than ranks, zb_h1 has too few weight
/// gradients to fill its waits, and interleaved too few microbatches to come round before a rank has no more.
double formula(const PipelineSchedule& s, const StageTimes& t) {
  const double one = t.forward + t.input_grad + t.weight_grad;
  const int ranks = s.sizes.ranks, missing = std::max(0, ranks - s.sizes.microbatches);
  switch (s.kind) {
    case PipelineKind::gpipe:
    case PipelineKind::one_f_one_b: return (ranks - 1) * one;
    case PipelineKind::interleaved: return (ranks - 1 + (s.sizes.chunks - 1) * missing) * one;
    case PipelineKind::zb_h1:
      return (ranks - 1) * (t.forward + t.input_grad - t.weight_grad) + missing * t.weight_grad;
    case PipelineKind::zbv: break;  // has none
  }
  return 0;
}

TEST(PipelineSchedules, IdlesAsLongAsItsFormulaSays) {
  for (const StageTimes& t : {StageTimes{1, 1, 1}, StageTimes{2, 3, 2}, StageTimes{3, 3, 2}})
    for_each_schedule([&](const PipelineSchedule& s) {
      const PipelineTimes line = simulate(s, {t});
      const double busy = s.sizes.chunks * s.sizes.microbatches * (t.forward + t.input_grad + t.weight_grad);
      for (int rank = 0; rank < s.sizes.ranks; ++rank) {
        EXPECT_EQ(line.busy[static_cast<std::size_t>(rank)], busy) << name_of(s);
        if (s.kind == PipelineKind::zbv) continue;
        EXPECT_DOUBLE_EQ(line.bubble(rank), formula(s, t) / busy) << name_of(s) << " rank " << rank;
      }
    });
}

/// zbv is made by greedy choices, which have no formula. With equal times and enough microbatches a rank
/// idles P - 1 times a chunk's forward (Qi et al.), or hardly longer.
TEST(PipelineSchedules, TheVIdlesLittle) {
  int exactly = 0, all = 0;
  for (int ranks = 2; ranks <= 8; ++ranks)
    for (int microbatches = ranks; microbatches <= 24; ++microbatches) {
      const auto s = make_pipeline_schedule(PipelineKind::zbv, {ranks, 2, microbatches});
      const double idle = simulate(s, {StageTimes{}}).end - 6.0 * microbatches;
      EXPECT_GE(idle, ranks - 1) << name_of(s);
      EXPECT_LE(idle, ranks - 1 + ranks / 2) << name_of(s);
      exactly += idle == ranks - 1 ? 1 : 0;
      ++all;
    }
  EXPECT_GE(exactly, all * 7 / 10);
}

/// Whatever the times are, it idles less than zb_h1, whose stages are twice as long.
TEST(PipelineSchedules, TheVIdlesLessThanAStraightPipe) {
  const std::array<StageTimes, 5> times{StageTimes{1, 1, 1}, StageTimes{2, 3, 2}, StageTimes{3, 3, 2},
                                        StageTimes{2, 3, 3}, StageTimes{3, 4, 2}};
  std::array<double, times.size()> shares{};
  int all = 0;
  for (int ranks = 2; ranks <= 8; ++ranks)
    for (int microbatches = 1; microbatches <= 24; ++microbatches, ++all) {
      const auto v = make_pipeline_schedule(PipelineKind::zbv, {ranks, 2, microbatches});
      const auto straight = make_pipeline_schedule(PipelineKind::zb_h1, {ranks, 1, microbatches});
      for (std::size_t i = 0; i < times.size(); ++i) {
        const StageTimes& t = times[i];
        const double work = 2 * microbatches * (t.forward + t.input_grad + t.weight_grad);
        const StageTimes twice{2 * t.forward, 2 * t.input_grad, 2 * t.weight_grad};
        const double share = (simulate(v, {t}).end - work) / (simulate(straight, {twice}).end - work);
        EXPECT_LE(share, 1.2) << name_of(v);
        shares[i] += share;
      }
    }
  for (const double sum : shares) EXPECT_LE(sum / all, 0.72);
}

/// Interleaved deals out groups of equal size, which is the smallest divisor of the microbatches that is no
/// smaller than the ranks, or all of them.
int group_of(const Sizes& sizes) {
  int group = std::min(sizes.ranks, sizes.microbatches);
  while (sizes.microbatches % group != 0) ++group;
  return sizes.ranks > sizes.microbatches ? sizes.microbatches : group;
}

TEST(PipelineSchedules, HoldsAsManyMicrobatchesAsItsMemoryIsPlannedFor) {
  for_each_schedule([&](const PipelineSchedule& s) {
    const PipelineTimes line = simulate(s, {StageTimes{}});
    const int ranks = s.sizes.ranks, m = s.sizes.microbatches, chunks = s.sizes.chunks;
    for (int rank = 0; rank < ranks; ++rank) {
      const int held = line.in_flight[static_cast<std::size_t>(rank)], after = ranks - 1 - rank;
      switch (s.kind) {
        case PipelineKind::gpipe: EXPECT_EQ(held, m); break;
        case PipelineKind::one_f_one_b: EXPECT_EQ(held, std::min(m, after + 1)) << name_of(s); break;
        case PipelineKind::zb_h1: EXPECT_EQ(held, std::min(m, ranks)) << name_of(s); break;
        case PipelineKind::interleaved:
          EXPECT_EQ(held, std::min(m * chunks, 2 * after + (chunks - 1) * group_of(s.sizes) + 1))
              << name_of(s);
          break;
        case PipelineKind::zbv: EXPECT_LE(held, std::min(m, ranks) * chunks) << name_of(s); break;
      }
    }
  });
}

/// A message takes time wherever it goes to another rank, and none between chunks of a pipe of one rank.
TEST(PipelineSchedules, MessagesTakeTime) {
  const auto end = [](int ranks, int chunks, double message) {
    const auto kind = chunks > 1 ? PipelineKind::interleaved : PipelineKind::gpipe;
    return simulate(make_pipeline_schedule(kind, {ranks, chunks, 1}), {StageTimes{}}, message).end;
  };
  EXPECT_EQ(end(3, 1, 0.5) - end(3, 1, 0), 4 * 0.5);
  EXPECT_EQ(end(1, 3, 0.5), end(1, 3, 0));
}

TEST(PipelineSchedules, StagesMayTakeDifferentTimes) {
  const PipelineSchedule s = make_pipeline_schedule(PipelineKind::one_f_one_b, {2, 1, 4});
  const PipelineTimes line = simulate(s, {{1, 1, 1}, {2, 2, 2}});
  EXPECT_EQ(line.busy[0], 12);
  EXPECT_EQ(line.busy[1], 24);
  EXPECT_EQ(line.end, 1 + 24 + 2);  // the slower stage never waits between its first and its last action
}

/// A list in which an action is missing, is there twice, or is of another microbatch or chunk is no schedule.
TEST(PipelineSchedules, AnyOtherListOfActionsIsRefused) {
  std::mt19937 random(1);
  for_each_schedule([&](const PipelineSchedule& s) {
    if (s.sizes.microbatches > 6) return;
    for (std::size_t rank = 0; rank < s.actions.size(); ++rank)
      for (std::size_t i = 0; i < s.actions[rank].size(); ++i) {
        PipelineSchedule dropped = s, twice = s, other = s, swapped = s;
        const auto at = static_cast<std::ptrdiff_t>(i);
        dropped.actions[rank].erase(dropped.actions[rank].begin() + at);
        EXPECT_THROW(check(dropped), std::logic_error) << name_of(s);
        twice.actions[rank].insert(twice.actions[rank].begin() + at, s.actions[rank][i]);
        EXPECT_THROW(check(twice), std::logic_error) << name_of(s);
        other.actions[rank][i].microbatch += random() % 2 == 0 ? 1 : -1;
        EXPECT_THROW(check(other), std::logic_error) << name_of(s);
        if (s.sizes.chunks == 1) continue;
        swapped.actions[rank][i].chunk = (s.actions[rank][i].chunk + 1) % s.sizes.chunks;
        EXPECT_THROW(check(swapped), std::logic_error) << name_of(s);
      }
  });
}

TEST(PipelineSchedules, ABackwardBeforeItsForwardIsRefused) {
  PipelineSchedule s = make_pipeline_schedule(PipelineKind::gpipe, {1, 1, 2});
  std::swap(s.actions[0][1], s.actions[0][2]);
  EXPECT_NO_THROW(check(s));  // F0 B0 F1 B1 is 1f1b
  std::swap(s.actions[0][0], s.actions[0][1]);
  EXPECT_THROW(check(s), std::logic_error);
}

/// Rank 0 wants the gradient of microbatch 0 before it sends microbatch 1, for which rank 1 waits first.
TEST(PipelineSchedules, ACircleOfWaitsIsRefused) {
  PipelineSchedule s = make_pipeline_schedule(PipelineKind::gpipe, {2, 1, 2});
  s.actions[0] = {{Work::forward, 0}, {Work::backward, 0}, {Work::forward, 1}, {Work::backward, 1}};
  try {
    check(s);
    FAIL() << "the circle was not seen";
  } catch (const std::logic_error& e) {
    EXPECT_NE(std::string(e.what()).find("waits in a circle"), std::string::npos) << e.what();
  }
}

/// Rank 1 sends the chunk's activations of two microbatches in turn; rank 0 uses them in the other order.
TEST(PipelineSchedules, MessagesInAnotherOrderThanThatOfTheirUseAreRefused) {
  PipelineSchedule s = make_pipeline_schedule(PipelineKind::interleaved, {2, 3, 2});
  const auto forward = [](int m, int chunk) { return Action{Work::forward, m, chunk}; };
  std::vector<Action>& first = s.actions[0];
  const auto a = std::find(first.begin(), first.end(), forward(1, 1)),
             b = std::find(first.begin(), first.end(), forward(0, 2));
  ASSERT_LT(a, b);
  // Rank 0 takes chunk 2 of microbatch 0 before chunk 1 of microbatch 1, though that came first.
  std::rotate(a, b, b + 1);
  try {
    check(s);
    FAIL() << "the other order was not seen";
  } catch (const std::logic_error& e) {
    EXPECT_NE(std::string(e.what()).find("in another order than that of their use"), std::string::npos)
        << e.what();
  }
}

TEST(PipelineSchedules, IsDrawn) {
  const auto picture = [](PipelineKind kind, const Sizes& sizes, int cells = 40) {
    const PipelineSchedule s = make_pipeline_schedule(kind, sizes);
    return drawn(s, simulate(s, {StageTimes{}}), cells);
  };
  EXPECT_EQ(picture(PipelineKind::one_f_one_b, {2, 1, 3}),
            "  rank 0   F0 F1 .  .  B0 B0 F2 B1 B1 .  B2 B2\n"
            "  rank 1   .  F0 B0 B0 F1 B1 B1 F2 B2 B2\n");
  EXPECT_EQ(picture(PipelineKind::zb_h1, {2, 1, 3}),
            "  rank 0   F0 F1 .  B0 W0 F2 B1 W1 B2 W2\n"
            "  rank 1   .  F0 B0 F1 B1 W0 F2 B2 W1 W2\n");
  EXPECT_EQ(picture(PipelineKind::interleaved, {1, 2, 1}), "  rank 0   F0  F0b B0b B0b B0  B0\n");
  EXPECT_EQ(picture(PipelineKind::gpipe, {1, 1, 3}, 4), "  rank 0   F0 F1 F2 B0 ...\n");
}

}  // namespace
}  // namespace weft::pipe::test
