#include "compile/planned_pipe.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "compile/programs.hpp"
#include "compile/scheduling.hpp"
#include "compile/stage_times.hpp"
#include "compile/stages.hpp"
#include "plan/report.hpp"
#include "plan/simulate.hpp"

namespace weft::compile {
namespace {

/// The layers of one stage: "embed, 0-6", "7-13", "14-20, head".
std::string layers_text(std::int64_t first, std::int64_t layers, bool has_embedding, bool has_head) {
  std::string text = has_embedding ? "embed" : "";
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (layers == 1) add(fmt::format("{}", first));
  if (layers > 1) add(fmt::format("{}-{}", first, first + layers - 1));
  if (has_head) add("head");
  return text;
}

/// The layers of each place's stages.
std::vector<std::string> stages_text(const Deck& deck, const Mesh& mesh, const StagePlaces& places) {
  const std::vector<std::int64_t> layers = layers_of_stages(deck, mesh);
  std::vector<std::string> texts(static_cast<std::size_t>(mesh.size(pipe_axis)));
  std::int64_t first = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    std::string& text = texts[static_cast<std::size_t>(places.place(static_cast<int>(stage)))];
    text += (text.empty() ? "" : " | ") +
            layers_text(first, layers[stage], stage == 0, stage + 1 == layers.size());
    first += layers[stage];
  }
  return texts;
}

}  // namespace

PlannedPipe planned_pipe(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                         const machine::CostModel& costs, std::int64_t baseline, const KnownPlace& known) {
  const auto options = stage_options(deck, mesh, 0);
  if (!options) throw std::logic_error("the mesh has no pipe to plan");
  const pipe::Sizes& sizes = options->sizes;
  PlannedPipe pipe;
  pipe.planned_microbatches =
      accumulation(with_distinct_rounds(deck, mesh, pass_options(deck, mesh)), mesh.batch_ranks());
  pipe.schedule = pipe::make_pipeline_schedule(options->kind, sizes);
  const std::vector<std::string> stages = stages_text(deck, mesh, options->places());
  std::vector<pipe::StageTimes> times(static_cast<std::size_t>(sizes.stages()));
  pipe.ranks.resize(static_cast<std::size_t>(sizes.ranks));
  double message = 0;
  const auto add = [&](int place, const plan::Plan& plan) {
    PlannedRank rank;
    rank.stages = stages[static_cast<std::size_t>(place)];
    for (const Unit& unit : plan.graph.units())
      for (const Parameter& p : unit.parameters) rank.parameters += element_count(whole(p).shape);
    const std::int64_t planned = place == known.pipe_rank ? sizes.microbatches : pipe.planned_microbatches;
    rank.state_bytes =
        plan::persistent_bytes(plan) + batch_bytes(plan) / planned * (sizes.microbatches - planned);
    rank.arena_bytes = plan.peak_bytes();
    if (place == known.pipe_rank || pipe.planned_microbatches == sizes.microbatches) rank.hash = plan.hash;
    pipe.ranks[static_cast<std::size_t>(place)] = std::move(rank);
    int chunk = 0;
    for (const pipe::StageTimes& of_chunk :
         stage_times(plan, plan::simulate(plan, costs), costs, sizes.chunks))
      times[static_cast<std::size_t>(options->places().stage(place, chunk++))] = of_chunk;
    message = std::max(message, message_seconds(plan, costs));
  };
  // Places are planned at the same time, as many as there are cores. Only the kernels' scratch is asked for
  // by one after the other, because a library prepares products for it.
  std::mutex asking;
  const plan::ScratchQuery one_by_one = [&](const ir::Graph& graph, const ir::Node& node) {
    const std::lock_guard lock(asking);
    return scratch(graph, node);
  };
  std::deque<std::pair<int, std::future<plan::Plan>>> under_way;
  const std::size_t most = std::max(1U, std::thread::hardware_concurrency());
  const auto finish_first = [&] {
    const int place = under_way.front().first;
    const plan::Plan plan = under_way.front().second.get();
    under_way.pop_front();
    add(place, plan);
  };
  for (int place = 0; place < sizes.ranks; ++place) {
    if (place == known.pipe_rank) continue;
    if (under_way.size() == most) finish_first();
    under_way.emplace_back(place, std::async(std::launch::async, [&, place] {
                             return plan_of_distinct_rounds(deck, mesh, one_by_one, costs, baseline, place);
                           }));
  }
  while (!under_way.empty()) finish_first();
  add(known.pipe_rank, known.plan);
  pipe.timeline = pipe::simulate(pipe.schedule, times, message);
  return pipe;
}

std::string to_text(const PlannedPipe& pipe) {
  const pipe::Sizes& sizes = pipe.schedule.sizes;
  std::string text = fmt::format(
      "\npipe: {}, {} ranks of {} stage{} each, {} microbatches; kernels and messages take {:.6f} "
      "s\n",
      name_of(pipe.schedule.kind), sizes.ranks, sizes.chunks, sizes.chunks == 1 ? "" : "s",
      sizes.microbatches, pipe.timeline.end);
  std::size_t width = 8;
  for (const PlannedRank& rank : pipe.ranks) width = std::max(width, rank.stages.size());
  text += fmt::format("  {:>4}  {:<{}} {:>15} {:>12} {:>12} {:>12} {:>10} {:>7} {:>17}\n", "rank", "layers",
                      width, "parameters", "state", "arena", "both", "in flight", "idle", "plan");
  for (std::size_t i = 0; i < pipe.ranks.size(); ++i) {
    const PlannedRank& rank = pipe.ranks[i];
    text += fmt::format("  {:>4}  {:<{}} {:>15} {:>12} {:>12} {:>12} {:>10} {:>6.1f}% {:>17}\n", i,
                        rank.stages, width, rank.parameters, bytes_text(rank.state_bytes),
                        bytes_text(rank.arena_bytes), bytes_text(rank.state_bytes + rank.arena_bytes),
                        pipe.timeline.in_flight[i], 100 * (1 - pipe.timeline.busy[i] / pipe.timeline.end),
                        rank.hash ? fmt::format("{:016x}", *rank.hash) : "-");
  }
  if (pipe.planned_microbatches < sizes.microbatches)
    text += fmt::format(
        "  -: planned with {} of the {} microbatches, which stand for all; --pipe-rank "
        "plans them all, and shows the plan's hash\n",
        pipe.planned_microbatches, sizes.microbatches);
  text +=
      "  F3: forward of microbatch 3, B3: its backward, W3: its weight gradients, .: idle; a cell each, if "
      "all took as long\n";
  return text + pipe::drawn(pipe.schedule, pipe::simulate(pipe.schedule, {pipe::StageTimes{}}));
}

}  // namespace weft::compile
