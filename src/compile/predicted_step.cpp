#include "compile/predicted_step.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compile/programs.hpp"
#include "compile/scheduling.hpp"
#include "compile/stage_times.hpp"
#include "compile/stages.hpp"
#include "compile/step_seconds.hpp"
#include "pipe/pipeline_schedule.hpp"
#include "plan/report.hpp"
#include "plan/simulate.hpp"

namespace weft::compile {
namespace {

/// What tells one stage's work from another's: its layers, how many units of them are in Float8, and whether
/// it has the embedding and the head.
using Kind = std::tuple<std::int64_t, std::int64_t, bool, bool>;

/// State and arena of a place, with the tokens of microbatches that were not planned.
std::int64_t bytes_of(const plan::Plan& plan, std::int64_t microbatches) {
  const std::int64_t planned = plan.graph.rounds();
  return plan::persistent_bytes(plan) + plan.peak_bytes() +
         batch_bytes(plan) / planned * (microbatches - planned);
}

/// A place's step as if it waited for no other stage; its times are `times`.
PredictedStep alone(const plan::Plan& plan, const StepTimes& times, std::int64_t microbatches) {
  PredictedStep step;
  step.seconds = times.seconds;
  step.data = of_data_lanes(times.exposed);
  step.tensor = of_tensor_lanes(times.exposed);
  step.context = times.exposed[Lane::context];
  step.bytes = bytes_of(plan, microbatches);
  return step;
}

/// The deck with as few microbatches as stand for all of a pipe: a multiple of its ranks, so that groups of
/// microbatches (pipe::make_pipeline_schedule) stay as they are. With gpipe a place holds them all.
Deck shorter(const Deck& deck, const Mesh& mesh, std::int64_t microbatches) {
  const std::int64_t ranks = mesh.size(pipe_axis), most = 4 * ranks;
  const PipelineKind kind = deck.pipeline.schedule;
  if (kind == PipelineKind::gpipe || microbatches <= 2 * most) return deck;
  if (kind == PipelineKind::interleaved && microbatches % ranks != 0) return deck;
  Deck fewer = deck;
  fewer.data.global_batch = (most + microbatches % ranks) * deck.data.batch * mesh.batch_ranks();
  return fewer;
}

class Pipe {
 public:
  Pipe(const Deck& deck, const Mesh& mesh) : deck_(deck), mesh_(mesh) {
    const std::vector<std::int64_t> layers = layers_of_stages(deck, mesh);
    const std::vector<Unit> units = model::units(spec_of(deck));
    std::int64_t first = 0;
    for (std::size_t stage = 0; stage < layers.size(); ++stage) {
      const auto begin = units.begin() + static_cast<std::ptrdiff_t>(model::first_unit_of_layer(first)),
                 end = units.begin() +
                       static_cast<std::ptrdiff_t>(model::first_unit_of_layer(first + layers[stage]));
      kinds_.emplace_back(layers[stage],
                          std::count_if(begin, end, [](const Unit& unit) { return unit.float8; }), stage == 0,
                          stage + 1 == layers.size());
      first += layers[stage];
    }
  }

  PredictedStep predict(const plan::ScratchQuery& scratch, const machine::CostModel& costs,
                        std::int64_t baseline) const {
    const std::int64_t microbatches = accumulation(deck_, mesh_.batch_ranks());
    const Deck fewer = shorter(deck_, mesh_, microbatches);
    const std::int64_t few = accumulation(fewer, mesh_.batch_ranks());
    const int ranks = mesh_.size(pipe_axis), chunks = static_cast<int>(deck_.pipeline.chunks);
    std::map<Kind, pipe::StageTimes> times;
    std::map<int, std::pair<PredictedStep, StepTimes>> steps;  // by place
    double message = 0;
    const auto [first, last] = places();
    for (const int place : first) {
      const plan::Plan plan = plan_of_distinct_rounds(fewer, mesh_, scratch, costs, baseline, place);
      const machine::LaneTimes lanes = plan::simulate(plan, costs);
      const auto of_chunks = stage_times(plan, lanes, costs, chunks);
      for (int chunk = 0; chunk < chunks; ++chunk)
        times[kind(place, chunk)] = of_chunks[static_cast<std::size_t>(chunk)];
      message = std::max(message, message_seconds(plan, costs));
      const StepTimes whole = step_times(plan, lanes, microbatches - plan.graph.rounds());
      steps.emplace(place, std::pair(alone(plan, whole, microbatches), whole));
    }
    std::vector<pipe::StageTimes> of_stages;
    for (const Kind& kind : kinds_) of_stages.push_back(times.at(kind));
    const pipe::PipelineTimes line = pipe::simulate(
        pipe::make_pipeline_schedule(deck_.pipeline.schedule, {ranks, chunks, static_cast<int>(few)}),
        of_stages, message);
    // The microbatches that were left out take as long as the slowest place is busy with them.
    const double most_busy = *std::max_element(line.busy.begin(), line.busy.end());
    const double all = static_cast<double>(microbatches), part = static_cast<double>(few);
    const double end = line.end + most_busy * (all / part - 1);
    PredictedStep slowest;
    std::int64_t bytes = 0;
    for (auto& [place, known] : steps) {
      auto& [step, times_alone] = known;
      const double idle = std::max(0.0, end - line.busy[static_cast<std::size_t>(place)] * all / part);
      const double busy = times_alone.seconds - of_pipe_lanes(times_alone.exposed);
      step.seconds = seconds_in_pipe(times_alone, idle);
      step.idle = step.seconds - busy;
      bytes = std::max(bytes, step.bytes);
      if (step.seconds > slowest.seconds) slowest = step;
    }
    if (splits_backward(deck_.pipeline.schedule))
      for (const int place : last)
        bytes = std::max(
            bytes,
            bytes_of(plan_of_distinct_rounds(fewer, mesh_, scratch, costs, baseline, place), microbatches));
    slowest.bytes = bytes;
    return slowest;
  }

 private:
  const Kind& kind(int place, int chunk) const {
    const StagePlaces places{mesh_.size(pipe_axis), folds(deck_.pipeline.schedule)};
    return kinds_[static_cast<std::size_t>(places.stage(place, chunk))];
  }
  /// The first place of each kind, and the last ones that are not the first. The first holds the most
  /// microbatches, but where backward is split all hold as many, and the last puts off the most of it.
  std::pair<std::vector<int>, std::vector<int>> places() const {
    std::map<std::vector<Kind>, std::pair<int, int>> of_kinds;
    for (int place = 0; place < mesh_.size(pipe_axis); ++place) {
      std::vector<Kind> of_place;
      for (int chunk = 0; chunk < deck_.pipeline.chunks; ++chunk) of_place.push_back(kind(place, chunk));
      of_kinds.try_emplace(of_place, place, place).first->second.second = place;
    }
    std::pair<std::vector<int>, std::vector<int>> all;
    for (const auto& [of_place, places] : of_kinds) {
      all.first.push_back(places.first);
      if (places.second != places.first) all.second.push_back(places.second);
    }
    return all;
  }

  const Deck& deck_;
  const Mesh& mesh_;
  std::vector<Kind> kinds_;  ///< by stage
};

}  // namespace

PredictedStep predicted_step(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                             const machine::CostModel& costs, std::int64_t baseline) {
  if (mesh.size(pipe_axis) > 1) return Pipe(deck, mesh).predict(scratch, costs, baseline);
  const plan::Plan plan = plan_of_distinct_rounds(deck, mesh, scratch, costs, baseline, 0);
  const std::int64_t microbatches = accumulation(deck, mesh.batch_ranks());
  const StepTimes times = step_times(plan, plan::simulate(plan, costs), microbatches - plan.graph.rounds());
  return alone(plan, times, microbatches);
}

}  // namespace weft::compile
