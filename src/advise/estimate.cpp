#include "advise/estimate.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "compile/programs.hpp"
#include "compile/scheduling.hpp"
#include "compile/stages.hpp"
#include "compile/step_seconds.hpp"
#include "compile/teams.hpp"
#include "passes/module_path.hpp"
#include "pipe/pipeline_schedule.hpp"
#include "plan/kept.hpp"
#include "plan/report.hpp"
#include "plan/simulate.hpp"

namespace weft::advise {
namespace {

/// The world without the pipe, which gives a short model the same groups on all other axes.
std::vector<MeshAxis> without_pipe(const std::vector<MeshAxis>& mesh) {
  std::vector<MeshAxis> axes;
  for (const MeshAxis& axis : mesh)
    if (axis.name != pipe_axis) axes.push_back(axis);
  return axes;
}

int product(const std::vector<MeshAxis>& mesh) {
  return std::accumulate(mesh.begin(), mesh.end(), 1,
                         [](int ranks, const MeshAxis& axis) { return ranks * axis.size; });
}

/// A rule of recomputation with the layer's number left open, "@layers.3-5.ffn" as "@layers.*.ffn"; nothing
/// where it names other layers than `layer`. A rule that names none stays as it is.
std::optional<std::string> open_rule(const std::string& rule, std::int64_t layer) {
  const std::size_t module = rule.find('@') + 1;  // 0 where the rule has none
  const std::size_t dot = rule.find('.', module);
  if (module == 0 || dot == std::string::npos || dot + 1 == rule.size() ||
      !std::isdigit(static_cast<unsigned char>(rule[dot + 1])) ||
      !passes::matched_part(rule.substr(module, dot - module), "layers"))
    return rule;
  const std::size_t end = std::min(rule.find('.', dot + 1), rule.size());
  if (!passes::matched_part(rule.substr(module, end - module), fmt::format("layers.{}", layer)))
    return std::nullopt;
  return rule.substr(0, module) + "layers.*" + rule.substr(end);
}

std::map<std::vector<std::string>, std::int64_t> layers_of_rules(const Deck& deck) {
  std::map<std::vector<std::string>, std::int64_t> layers;
  for (std::int64_t layer = 0; layer < deck.model.layers; ++layer) {
    std::vector<std::string> rules;
    for (const std::string& rule : deck.schedule.recompute_ops)
      if (std::optional<std::string> open = open_rule(rule, layer)) rules.push_back(std::move(*open));
    ++layers[rules];
  }
  return layers;
}

/// What the layers of forward keep for backward, of one microbatch, and what backward computes again.
std::pair<double, double> kept_by_layers(const plan::Plan& plan) {
  double kept = 0, computed = 0;
  for (const plan::KeptKind& kind : plan::kept_for_backward(plan.graph))
    if (kind.module.starts_with("layers.")) {
      kept += static_cast<double>(kind.kept_bytes());
      computed += static_cast<double>(kind.computed_bytes());
    }
  return {kept, computed};
}

/// Seconds of a microbatch's kernels, and of those of its forward.
std::pair<double, double> kernel_seconds(const plan::Plan& plan, const machine::CostModel& costs) {
  double forward = 0, all = 0;
  for (const ir::Node& node : plan.graph.nodes()) {
    if (ir::communicates(node.op) || node.round != 0 || node.phase == ir::Phase::update) continue;
    const double seconds = costs.kernel_seconds(plan.graph, node);
    all += seconds;
    if (node.phase == ir::Phase::forward) forward += seconds;
  }
  return {all, forward};
}

}  // namespace

/// What the plan of a short model says.
struct Estimator::Short {
  double round = 0;                         ///< seconds of a microbatch
  double rest = 0;                          ///< seconds of the step beside its microbatches
  double forward = 0;                       ///< of round
  double kernels = 0, forward_kernels = 0;  ///< seconds of a microbatch's kernels
  double state = 0, arena = 0, kept = 0, computed = 0, message = 0;

  friend Short operator+(Short a, const Short& b) {
    for (const auto member : members) a.*member += b.*member;
    return a;
  }
  friend Short operator*(Short a, double x) {
    for (const auto member : members) a.*member *= x;
    return a;
  }
  static const std::array<double Short::*, 10> members;
};
const std::array<double Estimator::Short::*, 10> Estimator::Short::members{
    &Short::kernels, &Short::forward_kernels, &Short::round, &Short::rest,     &Short::forward,
    &Short::state,   &Short::arena,           &Short::kept,  &Short::computed, &Short::message};

/// The straight line through two short models.
struct Estimator::Line {
  Short ends;   ///< embedding and head
  Short layer;  ///< each layer
  Short at(double layers) const { return ends + layer * layers; }
};

Estimator::Estimator(const Deck& deck, int world, int per_host, plan::ScratchQuery scratch,
                     const machine::CostModel& costs)
    : deck_(deck),
      world_(world),
      per_host_(per_host),
      scratch_(std::move(scratch)),
      costs_(costs),
      layers_of_rules_(layers_of_rules(deck)) {}
Estimator::~Estimator() = default;

Estimator::Short Estimator::planned(const Arrangement& arrangement, std::int64_t layers,
                                    const std::vector<std::string>& rules) const {
  Arrangement a = arrangement;
  a.mesh = without_pipe(arrangement.mesh);
  Deck deck = arranged(deck_, a);
  Mesh mesh = resolve_mesh(deck, product(a.mesh));
  mesh.set_teams(compile::teams_of(deck, mesh, costs_.profile(), per_host_));
  const bool pipe = arrangement.size(pipe_axis) > 1;
  const bool in_turns = (mesh.size(tensor_axis) > 1 || mesh.size(context_axis) > 1) && !pipe;
  const std::int64_t rounds = in_turns ? 8 : 4;
  deck.model.layers = layers;
  deck.pipeline.layers.clear();
  deck.schedule.recompute_ops = rules;
  if (!deck.precision.float8.empty()) {
    // The few layers are as most of the deck's are.
    const bool most = static_cast<std::int64_t>(compile::spec_of(deck_).float8.size()) > deck_.model.layers;
    deck.precision.float8.clear();
    if (most) deck.precision.float8.push_back(fmt::format("layers.0-{}", layers - 1));
  }
  deck.data.global_batch = rounds * deck.data.batch * mesh.batch_ranks();
  // What a search would choose is not looked for: a bucket a layer, and microbatches in turns where that may
  // hide something.
  deck.schedule.bucketing = Bucketing::manual;
  deck.schedule.buckets = {"embed", "layers.*", "head"};
  // To lay out the arena takes longer than all else, and its size is near what is live in it.
  deck.schedule.disable.emplace_back("memory");
  deck.schedule.memory_limit = 0;  // which such an arena would not be within
  if (deck.schedule.recompute == Recompute::budget) deck.schedule.recompute = Recompute::full;
  deck.schedule.alternate = Alternate::never;
  plan::Plan plan = compile::plan_of_distinct_rounds(deck, mesh, scratch_, costs_, 0, 0);
  Short s;
  // Turns take more memory, and are only chosen where there is room for them.
  s.arena = static_cast<double>(plan.live_bytes);
  std::tie(s.kept, s.computed) = kept_by_layers(plan);
  if (in_turns) {
    deck.schedule.alternate = Alternate::always;
    plan = compile::plan_of_distinct_rounds(deck, mesh, scratch_, costs_, 0, 0);
  }
  const machine::LaneTimes times = plan::simulate(plan, costs_);
  const double step = times.end;
  s.round = (compile::step_seconds(plan, times, 2) - step) / 2;
  s.rest = step - s.round * static_cast<double>(rounds);
  s.state = static_cast<double>(plan::persistent_bytes(plan));
  std::tie(s.kernels, s.forward_kernels) = kernel_seconds(plan, costs_);
  s.forward = s.round * s.forward_kernels / s.kernels;
  // What goes to the next stage is what goes from layer to layer.
  const double width =
      static_cast<double>(size_of(deck.precision.params)) * static_cast<double>(deck.model.dim);
  const double tokens = static_cast<double>(deck.data.batch * deck.data.seq) /
                        (mesh.size(context_axis) * mesh.size(tensor_axis));
  if (pipe)
    s.message =
        costs_.collective_seconds(ir::Op::send, {2, mesh.world() + 1}, tokens * width, deck.precision.params);
  return s;
}

Estimator::Line Estimator::line(const Arrangement& a) {
  std::string key =
      fmt::format("{} {} {} {}", name_of(a.mode), a.batch, name_of(a.recompute), a.size(pipe_axis) > 1);
  for (const MeshAxis& axis : without_pipe(a.mesh)) key += fmt::format(" {}={}", axis.name, axis.size);
  // The first that asks makes the line, and others wait for it.
  std::promise<Line> promise;
  {
    std::unique_lock lock(mutex_);
    const auto [known, is_new] = lines_.try_emplace(key);
    if (!is_new) {
      const std::shared_future<Line> line = known->second;
      lock.unlock();
      return line.get();
    }
    known->second = promise.get_future().share();
  }
  try {
    const Line line = planned_line(a);
    promise.set_value(line);
    return line;
  } catch (...) {
    promise.set_exception(std::current_exception());
    throw;
  }
}

Estimator::Line Estimator::planned_line(const Arrangement& a) const {
  if (a.recompute != Recompute::selective) return line_through(planned(a, 2, {}), planned(a, 4, {}));
  Line mean;
  for (const auto& [rules, layers] : layers_of_rules_) {
    const Line line = line_through(planned(a, 2, rules), planned(a, 4, rules));
    const double share = static_cast<double>(layers) / static_cast<double>(deck_.model.layers);
    mean.ends = mean.ends + line.ends * share;
    mean.layer = mean.layer + line.layer * share;
  }
  return mean;
}

Estimator::Line Estimator::line_through(const Short& two, const Short& four) {
  Line line;
  line.layer = (four + two * -1.0) * 0.5;
  // What a short model waits for may hide under more layers, so that the longer one takes less than its
  // kernels more. Further layers would not go on like that.
  line.layer.round = std::max(line.layer.round, line.layer.kernels);
  line.layer.forward = std::max(line.layer.forward, line.layer.forward_kernels);
  line.ends = two + line.layer * -2.0;
  return line;
}

std::vector<std::int64_t> Estimator::layers_of_stages(const Arrangement& a) {
  const std::pair stages(a.size(pipe_axis) * a.chunks, folds(a.schedule));
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = stages_.find(stages); known != stages_.end()) return known->second;
  }
  const Deck deck = arranged(deck_, a);
  std::vector<std::int64_t> layers = compile::layers_of_stages(deck, resolve_mesh(deck, world_));
  const std::lock_guard lock(mutex_);
  return stages_.emplace(stages, std::move(layers)).first->second;
}

Estimate Estimator::operator()(const Arrangement& a) {
  const int pipe = a.size(pipe_axis), batch_ranks = a.size(data_axis) * a.size(replica_axis);
  const double microbatches =
      static_cast<double>(deck_.data.global_batch) / static_cast<double>(a.batch) / batch_ranks;
  const Line line = this->line(a);
  if (pipe == 1) {
    const Short whole = line.at(static_cast<double>(deck_.model.layers));
    return {whole.round * microbatches + whole.rest, static_cast<std::int64_t>(whole.state + whole.arena)};
  }
  return of_pipe(a, line, static_cast<std::int64_t>(microbatches));
}

Estimate Estimator::of_pipe(const Arrangement& a, const Line& line, std::int64_t microbatches) {
  const std::vector<std::int64_t> layers = layers_of_stages(a);
  std::vector<pipe::StageTimes> times;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    // The embedding takes next to nothing, so that the ends' time is the head's.
    const Short t =
        line.layer * static_cast<double>(layers[stage]) + line.ends * (stage + 1 == layers.size() ? 1 : 0);
    times.push_back({t.forward, (t.round - t.forward) / 2, (t.round - t.forward) / 2});
  }
  const int ranks = a.size(pipe_axis);
  const StagePlaces places{ranks, folds(a.schedule)};
  const auto few = static_cast<int>(std::min<std::int64_t>(microbatches, 3L * ranks + microbatches % ranks));
  const pipe::PipelineTimes timeline =
      pipe::simulate(pipe::make_pipeline_schedule(a.schedule, {ranks, static_cast<int>(a.chunks), few}),
                     times, line.ends.message);
  // A microbatch passes a rank's border twice for each chunk, and both directions share the link.
  const double wire = 2 * line.ends.message * static_cast<double>(a.chunks);
  Estimate estimate;
  for (int place = 0; place < ranks; ++place) {
    const auto p = static_cast<std::size_t>(place);
    double own = 0;
    for (int chunk = 0; chunk < a.chunks; ++chunk)
      own += static_cast<double>(layers[static_cast<std::size_t>(places.stage(place, chunk))]);
    const Short of_place = line.at(own);
    const double period = std::max(timeline.busy[p] / few, wire);
    estimate.seconds =
        std::max(estimate.seconds, std::max(timeline.end, few * period) +
                                       period * static_cast<double>(microbatches - few) + of_place.rest);
    // Schedules hold as many of a few microbatches as of many; gpipe alone holds all of them.
    const double in_flight =
        a.schedule == PipelineKind::gpipe ? static_cast<double>(microbatches) : timeline.in_flight[p];
    // A chunk holds its part of the layers. What is put off holds what was computed again, and gradients:
    // about a third of what is kept. zb_h1 puts off more from rank to rank, and zbv as much on all.
    const double held = in_flight / static_cast<double>(a.chunks) - 1;
    const double put_off = !splits_backward(a.schedule) ? 0
                           : folds(a.schedule)          ? std::min(1 + ranks / 2, few)
                                                        : 1 + std::min(place, few);
    const double bytes = of_place.state - line.ends.state / 2 + of_place.arena +
                         std::max(0.0, held) * line.layer.kept * own +
                         put_off * (line.layer.kept / 3 + line.layer.computed) * own;
    estimate.bytes = std::max(estimate.bytes, static_cast<std::int64_t>(bytes));
  }
  return estimate;
}

std::int64_t Estimator::least_bytes(const Arrangement& a) const {
  const double parameters =
      static_cast<double>(parameter_count(deck_.model)) / (a.size(pipe_axis) * a.size(tensor_axis));
  const double shards = a.size(data_axis) * a.size(context_axis);
  const double read = deck_.precision.params == DType::bf16 ? 2 : 4;  // bytes of what forward reads
  const double optimizer = deck_.precision.params == DType::bf16 ? 12 : 8, gradient = 4;
  const bool whole_state = a.mode == ShardMode::ddp, whole_parameters = a.mode != ShardMode::fsdp;
  const double state = parameters * (read / (whole_parameters ? 1 : shards) +
                                     optimizer / (whole_state ? 1 : shards) + gradient / shards);
  const double tokens =
      static_cast<double>(a.batch * deck_.data.seq) / (a.size(context_axis) * a.size(tensor_axis));
  const double streams =
      tokens * static_cast<double>(deck_.model.dim * deck_.model.layers) / a.size(pipe_axis) * read;
  constexpr double sure = 0.8;  // stages are not all equal
  return static_cast<std::int64_t>(sure * (state + streams));
}

}  // namespace weft::advise
