#include "compile/programs.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/device.hpp"
#include "compile/stages.hpp"
#include "deck/suggest.hpp"
#include "passes/module_path.hpp"

namespace weft::compile {
namespace {

passes::RecomputeRule recompute_rule(const std::string& text, const std::string& place) {
  const std::string_view op = std::string_view(text).substr(0, text.find('@'));
  std::vector<std::string_view> names;
  for (int i = 0; i < ir::op_count; ++i) names.push_back(ir::name_of(static_cast<ir::Op>(i)));
  WEFT_VALIDATE(op.empty() || std::find(names.begin(), names.end(), op) != names.end(),
                "{}: '{}' is no operation (`weft plan --dump-after=autodiff` shows the model's){}", place, op,
                deck::did_you_mean(deck::nearest_word(op, names)));
  return passes::recompute_rule(text);
}

passes::RecomputeOptions recompute_options(const Deck& deck) {
  passes::RecomputeOptions options;
  // Without the pass nothing is computed again, and nothing that describes the schedule may say so.
  if (is_disabled(deck, "recompute")) return options;
  // A budget is spent by choose_schedule: until then nothing is computed again.
  if (deck.schedule.recompute != Recompute::budget) options.what = deck.schedule.recompute;
  if (options.what != Recompute::selective) return options;
  options.place = place_of(deck, "schedule.recompute_ops");
  for (const std::string& rule : deck.schedule.recompute_ops)
    options.rules.push_back(recompute_rule(rule, options.place));
  return options;
}

/// Microbatches of the deck, `rounds` a rank.
model::Batch batch_of(const Deck& deck, const Mesh& mesh, int rounds) {
  model::Batch batch;
  batch.rows = deck.data.batch * mesh.batch_ranks();
  batch.seq = deck.data.seq;
  batch.rounds = rounds;
  batch.context = mesh.size(context_axis);
  return batch;
}

/// Throws Error(bad_input) when a rule of recomputation names nothing of the model. A stage alone could not
/// tell.
void check_rules(const Deck& deck, const passes::PassOptions& options, const Mesh& mesh) {
  passes::PassOptions whole = options;
  whole.stage.reset();
  const Mesh one_stage({{std::string(data_axis), 1},
                        {std::string(context_axis), mesh.size(context_axis)},
                        {std::string(tensor_axis), mesh.size(tensor_axis)}});
  const ir::Graph forward =
      model::build_loss(spec_of(deck), batch_of(deck, one_stage, 1), one_stage, "rules").graph;
  passes::recompute(passes::run(passes::before_sharding(whole), forward), whole.recompute);
}

/// All units of the rank: where neighbours on a tensor axis share heads of keys and values, it has more of
/// them than the model.
int kept_units(const Deck& deck, const std::optional<passes::StageOptions>& stage, const Mesh& mesh) {
  const std::vector<Unit> model = model::units(spec_of(deck));
  return static_cast<int>(passes::units_of_rank(model, stage, mesh.size(tensor_axis)).size());
}

/// Whether a pattern of precision.float8 leaves the number of the layer open.
bool leaves_layer_open(const std::string& pattern) {
  const std::size_t dot = pattern.find('.');
  return dot == std::string::npos || pattern.compare(dot + 1, 1, "*") == 0;
}

/// The units that precision.float8 names. Where a pattern leaves the number of the layer open, the first and
/// the last layer are left out: their products suffer most from few bits.
std::vector<std::string> float8_units(const Deck& deck, const model::Spec& spec) {
  if (deck.precision.float8.empty()) return {};
  std::set<std::string> list;  // patterns may name a unit twice
  const std::vector<Unit> units = model::units(spec);
  for (const std::string& pattern : deck.precision.float8) {
    const bool leaves_out = leaves_layer_open(pattern);
    bool any = false;
    for (std::size_t u = 1; u + 1 < units.size(); ++u) {
      if (!passes::matched_part(pattern, units[u].path)) continue;
      any = true;
      const std::size_t layer = model::layer_of_unit(u);
      const bool at_an_end = layer == 1 || layer == static_cast<std::size_t>(spec.layers);
      if (!leaves_out || !at_an_end) list.insert(units[u].path);
    }
    WEFT_VALIDATE(any,
                  "{}: '{}' matches no layer of this model; they are '{}' to '{}' (embedding and head are "
                  "never in Float8)",
                  place_of(deck, "precision.float8"), pattern, units[1].path, units[units.size() - 2].path);
  }
  WEFT_VALIDATE(!list.empty(),
                "{}: nothing is left without the first and the last layer; name them, as 'layers.0-{}'",
                place_of(deck, "precision.float8"), spec.layers - 1);
  return {list.begin(), list.end()};
}

}  // namespace

bool is_disabled(const Deck& deck, std::string_view pass) {
  const auto& disabled = deck.schedule.disable;
  return std::find(disabled.begin(), disabled.end(), pass) != disabled.end();
}

bool shares_memory(const Deck& deck) {
  return device_is_host() && !is_disabled(deck, "share");
}

model::Spec spec_of(const Deck& deck) {
  const ModelDeck& m = deck.model;
  model::Spec spec;
  spec.dim = m.dim;
  spec.layers = m.layers;
  spec.heads = m.heads;
  spec.kv_heads = m.kv_heads;
  spec.ffn = m.ffn;
  spec.vocab = m.vocab;
  spec.norm_eps = m.norm_eps;
  spec.tie_embeddings = m.tie_embeddings;
  spec.document_mask = deck.data.document_mask;
  spec.deterministic = deck.precision.deterministic;
  spec.float8 = float8_units(deck, spec);
  spec.f32_norms = deck.precision.params != DType::f32 && deck.precision.norms == DType::f32;
  return spec;
}

std::vector<int> unit_buckets(const Deck& deck, const std::optional<passes::StageOptions>& stage,
                              int tensor_ranks) {
  const std::vector<Unit> units = model::units(spec_of(deck));
  for (const std::string& pattern : deck.schedule.buckets)
    WEFT_VALIDATE(
        std::any_of(units.begin(), units.end(),
                    [&](const Unit& unit) { return passes::matched_part(pattern, unit.path).has_value(); }),
        "{}: '{}' matches no unit of this model; they are '{}' to '{}'", place_of(deck, "schedule.buckets"),
        pattern, units.front().path, units.back().path);
  return passes::buckets_by_path(passes::units_of_rank(units, stage, tensor_ranks), deck.schedule.buckets);
}

passes::PassOptions pass_options(const Deck& deck, const Mesh& mesh, int pipe_rank) {
  passes::PassOptions options;
  options.stage = stage_options(deck, mesh, pipe_rank);
  options.partition = mesh.size(tensor_axis) > 1;
  options.context = mesh.size(context_axis) > 1;
  options.float8 = !deck.precision.float8.empty();
  options.f32_norms = spec_of(deck).f32_norms;
  if (deck.schedule.alternate == Alternate::always)
    options.turns = options.partition ? passes::Turns::half : passes::Turns::whole;
  options.update.beta1 = deck.optimizer.beta1;
  options.update.beta2 = deck.optimizer.beta2;
  options.update.eps = deck.optimizer.eps;
  options.update.clip = deck.optimizer.clip;
  options.precision.params = deck.precision.params;
  options.precision.grad_wire = deck.precision.grad_wire;
  options.precision.float8_gradients = deck.precision.float8_gradients;
  options.precision.float8_scales = deck.precision.float8_scales;
  options.shard.mode = deck.parallel.mode;
  if (deck.schedule.regather == Regather::never)
    options.shard.keep_units = kept_units(deck, options.stage, mesh);
  options.shard.accumulation = deck.schedule.accumulate;
  options.shard.reduction = deck.precision.reduction;
  options.head_rows = deck.precision.head_rows;
  options.recompute = recompute_options(deck);
  if (deck.schedule.bucketing == Bucketing::manual) {
    const std::vector<int> buckets = unit_buckets(deck, options.stage, mesh.size(tensor_axis));
    options.buckets = passes::Buckets{buckets, buckets, buckets};
  }
  options.order.prefetch = deck.schedule.prefetch < 0 ? 1 : static_cast<int>(deck.schedule.prefetch);
  options.order.prefetch_bytes = static_cast<std::int64_t>(deck.schedule.prefetch_bytes);
  options.order.delay = deck.schedule.reduce_delay < 0 ? 1 : static_cast<int>(deck.schedule.reduce_delay);
  // Hashes of values need whole values.
  options.rows = device_is_host() && deck.debug.hash_every == 0;
  options.disable = deck.schedule.disable;
  passes::check_disabled(options, place_of(deck, "schedule.disable"));
  if (options.stage && options.recompute.what == Recompute::selective) check_rules(deck, options, mesh);
  if (options.stage) options.recompute.whole_model = false;
  return options;
}

ir::Graph training_forward(const Deck& deck, const Mesh& mesh) {
  const auto rounds = static_cast<int>(accumulation(deck, mesh.batch_ranks()));
  return model::build_loss(spec_of(deck), batch_of(deck, mesh, rounds), mesh, "train").graph;
}

plan::Plan training_plan(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                         const passes::PassOptions& options, const passes::Observer& observer) {
  const auto passes = passes::training_passes(options);
  return lowered(passes::run(passes, training_forward(deck, mesh), observer), deck, scratch);
}

plan::Plan lowered(ir::Graph step, const Deck& deck, const plan::ScratchQuery& scratch) {
  plan::Plan plan = plan::lower(std::move(step), scratch,
                                is_disabled(deck, "memory") ? plan::MemoryReuse::off : plan::MemoryReuse::on);
#ifdef WEFT_DEBUG
  plan::verify(plan);
#endif
  return plan;
}

plan::Plan evaluation_plan(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                           const passes::PassOptions& options, int rounds) {
  const ir::Graph forward = model::build_evaluation(spec_of(deck), batch_of(deck, mesh, rounds), mesh);
  return lowered(passes::run(passes::forward_passes(options, rounds), forward), deck, scratch);
}

plan::Plan logits_plan(const Deck& deck, const Mesh& mesh, int pipe_rank, const plan::ScratchQuery& scratch) {
  model::Batch batch = batch_of(deck, mesh, 1);
  batch.rows = 1;
  const ir::Graph forward = model::build_logits(spec_of(deck), batch, mesh);
  const auto passes = passes::forward_passes(pass_options(deck, mesh, pipe_rank), 1);
  return lowered(passes::run(passes, forward), deck, scratch);
}

}  // namespace weft::compile
