#include "pipe/zbv.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/stage_places.hpp"

namespace weft::pipe {
namespace {

constexpr int chunks = 2;

/// What a rank prefers where it could do several things.
struct Preference {
  enum class First { backward, forward_of_second, forwards } first = First::backward;
  bool behind_first = false;  ///< backward of the first chunk before that of the second, where it lags
  int reserve = 0;            ///< how many chunks' room a forward of the first chunk leaves free
};

/// Whole numbers that kinds of work may take. Orders that are made with equal times only can wait in each
/// round when times are others.
struct Times {
  int forward, input_grad, weight_grad;
};
constexpr std::array<Times, 4> times{Times{1, 1, 1}, Times{2, 3, 2}, Times{3, 3, 2}, Times{2, 3, 3}};
constexpr std::size_t judged_by = 3;  ///< so many of them

/// Lets all ranks work, each on what it prefers of what it can do.
class Greedy {
 public:
  Greedy(const Sizes& sizes, const Times& taken, const Preference& preference)
      : sizes_(sizes),
        taken_(taken),
        prefers_(preference),
        places_{sizes.ranks, true},
        stages_(static_cast<std::size_t>(sizes.stages())),
        free_at_(static_cast<std::size_t>(sizes.ranks)),
        held_(free_at_.size()),
        actions_(free_at_.size()) {
    for (Stage& stage : stages_) {
      stage.forward_end.resize(static_cast<std::size_t>(sizes.microbatches));
      stage.backward_end.resize(stage.forward_end.size());
    }
  }

  void run() {
    std::size_t left = 3 * actions_.size() * chunks * static_cast<std::size_t>(sizes_.microbatches);
    for (int now = 0; left > 0; ++now)
      for (int rank = 0; rank < sizes_.ranks; ++rank) {
        const std::optional<Action> action = chosen(rank, now);
        if (!action) continue;
        begin(rank, *action, now);
        --left;
      }
  }

  std::vector<std::vector<Action>> take() { return std::move(actions_); }

 private:
  /// How far a stage is: how many microbatches have begun each kind of work, and when each one's work that
  /// others wait for ends.
  struct Stage {
    int forwards = 0, backwards = 0, weight_grads = 0;
    std::vector<int> forward_end, backward_end;
  };

  Stage& stage_at(int number) { return stages_[static_cast<std::size_t>(number)]; }
  Stage& stage_of(int rank, int chunk) { return stage_at(places_.stage(rank, chunk)); }
  static bool ended(int begun, const std::vector<int>& ends, int microbatch, int now) {
    return microbatch < begun && ends[static_cast<std::size_t>(microbatch)] <= now;
  }

  std::optional<Action> chosen(int rank, int now) {
    if (free_at_[static_cast<std::size_t>(rank)] > now) return std::nullopt;
    const auto any = [](std::initializer_list<std::optional<Action>> in_order) {
      for (const std::optional<Action>& action : in_order)
        if (action) return action;
      return std::optional<Action>{};
    };
    const std::optional<Action> b = backward(rank, now), f0 = forward(rank, 0, now),
                                f1 = forward(rank, 1, now), w = weight_grad(rank, now);
    switch (prefers_.first) {
      case Preference::First::backward: return any({b, f1, f0, w});
      case Preference::First::forward_of_second: return any({f1, b, f0, w});
      case Preference::First::forwards: return any({f1, f0, b, w});
    }
    return std::nullopt;
  }

  std::optional<Action> forward(int rank, int chunk, int now) {
    const int number = places_.stage(rank, chunk), m = stage_at(number).forwards;
    const int room = chunks * sizes_.ranks - (chunk == 0 ? prefers_.reserve : 0);
    if (m == sizes_.microbatches || held_[static_cast<std::size_t>(rank)] >= room) return std::nullopt;
    if (number > 0) {
      const Stage& before = stage_at(number - 1);
      if (!ended(before.forwards, before.forward_end, m, now)) return std::nullopt;
    }
    return Action{Work::forward, m, chunk};
  }

  std::optional<Action> backward(int rank, int now) {
    const bool first_lags = stage_of(rank, 0).backwards < stage_of(rank, 1).backwards;
    const int preferred = prefers_.behind_first && first_lags ? 0 : 1;
    for (const int chunk : {preferred, 1 - preferred}) {
      const int number = places_.stage(rank, chunk);
      const Stage& stage = stage_at(number);
      const int m = stage.backwards;
      if (!ended(stage.forwards, stage.forward_end, m, now)) continue;
      if (number + 1 < sizes_.stages()) {
        const Stage& behind = stage_at(number + 1);
        if (!ended(behind.backwards, behind.backward_end, m, now)) continue;
      }
      return Action{Work::input_grad, m, chunk};
    }
    return std::nullopt;
  }

  /// The second chunk comes first, so that a microbatch's weight gradients are made from the last stage to
  /// the first.
  std::optional<Action> weight_grad(int rank, int now) {
    for (const int chunk : {1, 0}) {
      const Stage& stage = stage_of(rank, chunk);
      const int m = stage.weight_grads;
      if (ended(stage.backwards, stage.backward_end, m, now)) return Action{Work::weight_grad, m, chunk};
    }
    return std::nullopt;
  }

  void begin(int rank, const Action& action, int now) {
    const auto r = static_cast<std::size_t>(rank);
    const auto m = static_cast<std::size_t>(action.microbatch);
    Stage& stage = stage_of(rank, action.chunk);
    if (action.work == Work::forward) {
      free_at_[r] = stage.forward_end[m] = now + taken_.forward;
      ++stage.forwards;
      ++held_[r];
    } else if (action.work == Work::input_grad) {
      free_at_[r] = stage.backward_end[m] = now + taken_.input_grad;
      ++stage.backwards;
    } else {
      free_at_[r] = now + taken_.weight_grad;
      ++stage.weight_grads;
      --held_[r];
    }
    actions_[r].push_back(action);
  }

  const Sizes& sizes_;
  Times taken_;
  Preference prefers_;
  StagePlaces places_;
  std::vector<Stage> stages_;
  std::vector<int> free_at_, held_;  ///< by rank
  std::vector<std::vector<Action>> actions_;
};

std::vector<std::vector<Action>> made(const Sizes& sizes, const Times& taken, const Preference& preference) {
  Greedy greedy(sizes, taken, preference);
  greedy.run();
  return greedy.take();
}

/// How long a step takes, in steps without idle time; the sum over several times of work.
double length(const Sizes& sizes, std::vector<std::vector<Action>> actions) {
  const PipelineSchedule schedule{PipelineKind::zbv, sizes, std::move(actions)};
  double sum = 0;
  for (std::size_t i = 0; i < judged_by; ++i) {
    const Times& t = times[i];
    const StageTimes of_stage{double(t.forward), double(t.input_grad), double(t.weight_grad)};
    sum += simulate(schedule, {of_stage}).end / (t.forward + t.input_grad + t.weight_grad);
  }
  return sum;
}

/// A way to let ranks choose.
struct Way {
  Times taken;
  Preference preference;
};

/// The ways that are tried. None is best for all sizes; where all would take long, those that were among the
/// best for pipes of 16 to 64 ranks.
std::vector<Way> ways(const Sizes& sizes) {
  using First = Preference::First;
  if (sizes.ranks * sizes.microbatches > 1000)
    return {{times[2], {First::forwards, true, 0}},
            {times[3], {First::forwards, true, 0}},
            {times[3], {First::forwards, false, 0}},
            {times[1], {First::forward_of_second, false, 1}},
            {times[1], {First::forward_of_second, true, 1}}};
  std::vector<Way> all;
  for (const Times& taken : times)
    for (const int reserve : {0, 1})
      for (const First first : {First::backward, First::forward_of_second, First::forwards})
        for (const bool behind_first : {false, true}) all.push_back({taken, {first, behind_first, reserve}});
  return all;
}

/// The sizes that the ways are compared with. They have all microbatches, or, where that would take seconds,
/// so many that ranks come round several times.
Sizes enough(Sizes sizes) {
  const int most = std::max(4 * sizes.ranks, 4096 / sizes.ranks);
  if (sizes.microbatches > most + sizes.ranks) sizes.microbatches = most + sizes.microbatches % sizes.ranks;
  return sizes;
}

Way shortest(const Sizes& sizes) {
  Way best{times[0], {}};
  double least = std::numeric_limits<double>::infinity();
  for (const Way& way : ways(sizes)) {
    const double found = length(sizes, made(sizes, way.taken, way.preference));
    if (found >= least * (1 - 1e-9)) continue;
    least = found;
    best = way;
  }
  return best;
}

/// shortest(), remembered: planning asks for one schedule many times.
Way remembered(const Sizes& sizes) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, Way> known;
  const std::pair key(sizes.ranks, sizes.microbatches);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const Way way = shortest(sizes);
  const std::lock_guard lock(mutex);
  return known.emplace(key, way).first->second;
}

}  // namespace

std::vector<std::vector<Action>> zbv_actions(const Sizes& sizes) {
  const Way way = remembered(enough(sizes));
  return made(sizes, way.taken, way.preference);
}

}  // namespace weft::pipe
