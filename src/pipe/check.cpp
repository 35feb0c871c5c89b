// The proof of a schedule (declared in pipeline_schedule.hpp).
#include <fmt/core.h>

#include <array>
#include <compare>
#include <map>
#include <stdexcept>
#include <utility>

#include "pipe/pipeline_schedule.hpp"

namespace weft::pipe {
namespace {

[[noreturn]] void fail(const PipelineSchedule& schedule, const std::string& what) {
  const Sizes& s = schedule.sizes;
  throw std::logic_error(fmt::format("the schedule {} of {} ranks, {} chunks and {} microbatches: {}",
                                     name_of(schedule.kind), s.ranks, s.chunks, s.microbatches, what));
}

/// The parts of the model's work that an action does: forward, input gradient, weight gradient.
constexpr std::array<bool, 3> parts_of(Work work) {
  return {work == Work::forward, work == Work::backward || work == Work::input_grad,
          work == Work::backward || work == Work::weight_grad};
}
constexpr std::array part_names{"forward", "input gradient", "weight gradient"};

/// Each part of each stage takes the microbatches 0, 1, 2, ..., and no part comes before the one that it
/// needs.
void check_order(const PipelineSchedule& schedule) {
  const bool folded = schedule.places().folded;
  for (int rank = 0; rank < schedule.sizes.ranks; ++rank) {
    std::vector<std::array<int, 3>> next(static_cast<std::size_t>(schedule.sizes.chunks));
    for (const Action& action : schedule.actions.at(static_cast<std::size_t>(rank))) {
      std::array<int, 3>& of_chunk = next.at(static_cast<std::size_t>(action.chunk));
      const std::array<bool, 3> parts = parts_of(action.work);
      for (std::size_t part = 0; part < parts.size(); ++part) {
        if (!parts[part]) continue;
        if (of_chunk[part] != action.microbatch)
          fail(schedule,
               fmt::format("rank {} makes the {} of microbatch {} in chunk {}, where {} is next", rank,
                           part_names[part], action.microbatch, action.chunk, of_chunk[part]));
        if (++of_chunk[part] > schedule.sizes.microbatches)
          fail(schedule, fmt::format("rank {} makes the {} of microbatch {}", rank, part_names[part],
                                     action.microbatch));
        if (part > 0 && of_chunk[part] > of_chunk[part - 1])
          fail(schedule,
               fmt::format("rank {} makes the {} of microbatch {} in chunk {} before its {}", rank,
                           part_names[part], action.microbatch, action.chunk, part_names[part - 1]));
      }
      const auto behind = static_cast<std::size_t>(action.chunk) + 1;
      if (folded && parts.back() && behind < next.size() && next[behind].back() <= action.microbatch)
        fail(schedule, fmt::format("rank {} makes the weight gradient of microbatch {} in chunk {} before "
                                   "that in chunk {}",
                                   rank, action.microbatch, action.chunk, behind));
    }
    for (const std::array<int, 3>& of_chunk : next)
      for (std::size_t part = 0; part < of_chunk.size(); ++part)
        if (of_chunk[part] != schedule.sizes.microbatches)
          fail(schedule, fmt::format("rank {} makes {} of {} {}s", rank, of_chunk[part],
                                     schedule.sizes.microbatches, part_names[part]));
  }
}

/// A message: who sends and who receives what, and for which stage and microbatch.
struct Wire {
  int from, to;
  bool gradient;
  auto operator<=>(const Wire&) const = default;
};
using Messages = std::map<Wire, std::vector<std::pair<int, int>>>;

void check_messages(const PipelineSchedule& schedule) {
  const Sizes& s = schedule.sizes;
  const auto rank_of = [&](int stage) { return schedule.places().place(stage); };
  Messages sent, used;
  for (int rank = 0; rank < s.ranks; ++rank)
    for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
      if (action.work == Work::weight_grad) continue;
      const bool gradient = action.work != Work::forward;
      const int stage = schedule.stage(rank, action), on = gradient ? -1 : 1;
      const auto exists = [&](int other) { return other >= 0 && other < s.stages(); };
      if (exists(stage + on))
        sent[{rank, rank_of(stage + on), gradient}].emplace_back(stage + on, action.microbatch);
      if (exists(stage - on))
        used[{rank_of(stage - on), rank, gradient}].emplace_back(stage, action.microbatch);
    }
  for (const auto& [wire, messages] : sent)
    if (messages != used[wire])
      fail(schedule, fmt::format("rank {} sends {} to rank {} in another order than that of their use",
                                 wire.from, wire.gradient ? "gradients" : "activations", wire.to));
}

}  // namespace

void check(const PipelineSchedule& schedule) {
  check_order(schedule);
  check_messages(schedule);
  simulate(schedule, {StageTimes{}});  // throws on a circle
}

}  // namespace weft::pipe
