// Times and drawings of schedules (declared in pipeline_schedule.hpp).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "pipe/pipeline_schedule.hpp"

namespace weft::pipe {
namespace {

class Simulation {
 public:
  Simulation(const PipelineSchedule& schedule, const std::vector<StageTimes>& stages, double message)
      : schedule_(schedule),
        stages_(stages),
        message_(message),
        activations_(places()),
        gradients_(places()) {
    const auto ranks = static_cast<std::size_t>(schedule.sizes.ranks);
    line_.spans.resize(ranks);
    line_.busy.resize(ranks);
    line_.in_flight.resize(ranks);
  }

  PipelineTimes run() {
    std::vector<int> held(line_.spans.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < schedule_.sizes.ranks; ++rank)
        while (advance(rank, held[static_cast<std::size_t>(rank)])) moved = true;
    }
    for (std::size_t rank = 0; rank < line_.spans.size(); ++rank)
      if (line_.spans[rank].size() < schedule_.actions[rank].size())
        throw std::logic_error(fmt::format("the schedule {}: rank {} waits in a circle at its action {}",
                                           name_of(schedule_.kind), rank, line_.spans[rank].size()));
    return std::move(line_);
  }

 private:
  /// When something of a microbatch and stage is there; unset: not yet.
  using Known = std::vector<std::optional<double>>;

  std::size_t places() const {
    return static_cast<std::size_t>(schedule_.sizes.stages()) *
           static_cast<std::size_t>(schedule_.sizes.microbatches);
  }
  std::optional<double>& at(Known& known, int stage, int microbatch) const {
    return known[static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.sizes.microbatches) +
                 static_cast<std::size_t>(microbatch)];
  }

  /// When what the action reads is there: 0 for the model's input and the loss's gradient.
  std::optional<double> ready(int stage, const Action& action) {
    switch (action.work) {
      case Work::forward:
        return stage == 0 ? 0.0 : arrived(activations_, stage - 1, stage, action.microbatch);
      case Work::backward:
      case Work::input_grad:
        return stage + 1 == schedule_.sizes.stages()
                   ? 0.0
                   : arrived(gradients_, stage + 1, stage, action.microbatch);
      case Work::weight_grad: return 0.0;  // behind the input gradient, in the rank's own order
    }
    return std::nullopt;
  }
  std::optional<double> arrived(Known& made, int from, int to, int microbatch) {
    const std::optional<double> end = at(made, from, microbatch);
    const StagePlaces places = schedule_.places();
    const bool same_rank = places.place(from) == places.place(to);
    return end && !same_rank ? *end + message_ : end;
  }

  double duration(int stage, Work work) const {
    const StageTimes& t = stages_.size() == 1 ? stages_.front() : stages_.at(static_cast<std::size_t>(stage));
    switch (work) {
      case Work::forward: return t.forward;
      case Work::backward: return t.input_grad + t.weight_grad;
      case Work::input_grad: return t.input_grad;
      case Work::weight_grad: return t.weight_grad;
    }
    return 0;
  }

  /// Begins the rank's next action if what it reads is known; `held` is how many microbatches it has in
  /// flight.
  bool advance(int rank, int& held) {
    const auto r = static_cast<std::size_t>(rank);
    std::vector<Span>& spans = line_.spans[r];
    if (spans.size() == schedule_.actions[r].size()) return false;
    const Action& action = schedule_.actions[r][spans.size()];
    const int stage = schedule_.stage(rank, action);
    const std::optional<double> there = ready(stage, action);
    if (!there) return false;
    const double start = std::max(spans.empty() ? 0.0 : spans.back().end, *there);
    const double end = start + duration(stage, action.work);
    if (action.work == Work::forward) {
      at(activations_, stage, action.microbatch) = end;
      line_.in_flight[r] = std::max(line_.in_flight[r], ++held);
    } else if (action.work != Work::weight_grad) {
      at(gradients_, stage, action.microbatch) = end;
    }
    if (action.work == Work::backward || action.work == Work::weight_grad) --held;
    line_.busy[r] += end - start;
    line_.end = std::max(line_.end, end);
    spans.push_back({action, start, end});
    return true;
  }

  const PipelineSchedule& schedule_;
  const std::vector<StageTimes>& stages_;
  double message_;
  Known activations_, gradients_;  ///< by stage and microbatch: the end of the forward, of the input gradient
  PipelineTimes line_;
};

}  // namespace

std::string short_name(const Action& action) {
  const char letter = action.work == Work::forward ? 'F' : action.work == Work::weight_grad ? 'W' : 'B';
  std::string text = fmt::format("{}{}", letter, action.microbatch);
  if (action.chunk > 0) text += static_cast<char>('a' + action.chunk % 26);
  return text;
}

double PipelineTimes::bubble(int rank) const {
  const double work = busy.at(static_cast<std::size_t>(rank));
  return (end - work) / work;
}

PipelineTimes simulate(const PipelineSchedule& schedule, const std::vector<StageTimes>& stages,
                       double message) {
  return Simulation(schedule, stages, message).run();
}

std::string drawn(const PipelineSchedule& schedule, const PipelineTimes& timeline, int cells) {
  const std::size_t width =
      fmt::format("{}", schedule.sizes.microbatches - 1).size() + (schedule.sizes.chunks > 1 ? 2 : 1) + 1;
  std::string text;
  for (std::size_t rank = 0; rank < timeline.spans.size(); ++rank) {
    text += fmt::format("  rank {:<4}", rank);
    int column = 0;
    const auto put = [&](const std::string& what) {
      if (column++ < cells) text += fmt::format("{:<{}}", what, width);
    };
    for (const Span& span : timeline.spans[rank]) {
      while (column < static_cast<int>(std::lround(span.start))) put(".");
      while (column < static_cast<int>(std::lround(span.end))) put(short_name(span.action));
    }
    if (column > cells) text += "...";
    while (text.back() == ' ') text.pop_back();
    text += '\n';
  }
  return text;
}

}  // namespace weft::pipe
