#include "passes/pass_list.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "ir/verify.hpp"
#include "ops/verify.hpp"

namespace weft::passes {
namespace {

void verify_all(const ir::Graph& graph) {
  ir::verify(graph);
  ops::verify_types(graph);
  ops::verify_placements(graph);
}

bool disabled(const PassOptions& options, std::string_view name) {
  return std::find(options.disable.begin(), options.disable.end(), name) != options.disable.end();
}

void append_cuts_and_fuse(const PassOptions& options, std::vector<Pass>& passes) {
  if (options.stage)
    passes.push_back(
        {"stage", Bits::exact, [o = *options.stage](const ir::Graph& g) { return stage(g, o); }});
  if (options.partition)
    passes.push_back({"partition", Bits::numerics, [](const ir::Graph& g) { return partition(g); }});
  if ((options.float8 || options.f32_norms) && !options.partition)
    passes.push_back({"norms_apart", Bits::exact, [](const ir::Graph& g) { return norms_apart(g); }});
  if (!disabled(options, "fuse"))
    passes.push_back({"fuse", Bits::numerics, [](const ir::Graph& g) { return fuse(g); }});
  if (options.context)
    passes.push_back({"context", Bits::numerics, [](const ir::Graph& g) { return context(g); }});
}

void append_head_and_types(const PassOptions& options, std::vector<Pass>& passes) {
  if (options.head_rows > 0 && !disabled(options, "head"))
    passes.push_back(
        {"head", Bits::numerics, [rows = options.head_rows](const ir::Graph& g) { return head(g, rows); }});
  passes.push_back(
      {"precision", Bits::numerics, [o = options.precision](const ir::Graph& g) { return precision(g, o); }});
  if (options.float8)
    passes.push_back({"float8", Bits::numerics, [o = options.precision](const ir::Graph& g) {
                        return float8(g, o.float8_gradients, o.float8_scales);
                      }});
}

void append_sharding(const PassOptions& options, std::vector<Pass>& passes) {
  if (options.recompute.what != Recompute::none && !disabled(options, "recompute"))
    passes.push_back(
        {"recompute", Bits::exact, [o = options.recompute](const ir::Graph& g) { return recompute(g, o); }});
  if (options.float8 && options.partition && !disabled(options, "quantize_first"))
    passes.push_back({"quantize_first", Bits::exact, [](const ir::Graph& g) { return quantize_first(g); }});
  if (!disabled(options, "residual"))
    passes.push_back({"residual", Bits::exact, [](const ir::Graph& g) { return residual(g); }});
  if ((options.partition || options.context) && options.hoist.depth > 0 && !disabled(options, "hoist"))
    passes.push_back({"hoist", Bits::exact, [o = options.hoist](const ir::Graph& g) { return hoist(g, o); }});
  const bool alternates = microbatches_take_turns(options);
  if (alternates)
    passes.push_back(
        {"alternate", Bits::exact, [t = options.turns](const ir::Graph& g) { return alternate(g, t); }});
  if (options.stage)
    passes.push_back(
        {"interleave", Bits::exact, [o = *options.stage](const ir::Graph& g) { return interleave(g, o); }});
  const bool exact =
      options.shard.accumulation == Accumulation::each && options.shard.reduction == ReduceOrder::canonical;
  ShardOptions shard_options = options.shard;
  shard_options.alternate = alternates;
  passes.push_back({"shard", exact ? Bits::exact : Bits::numerics,
                    [o = shard_options](const ir::Graph& g) { return shard(g, o); }});
  if (!disabled(options, "share"))
    passes.push_back({"share", Bits::exact, [](const ir::Graph& g) {
                        return g.mesh().teams().any() ? share(g, g.mesh().teams()) : g;
                      }});
  if (options.rows && !disabled(options, "rows"))
    passes.push_back({"rows", Bits::exact, [](const ir::Graph& g) { return rows(g); }});
}

void append_order(const PassOptions& options, std::vector<Pass>& passes) {
  if (options.buckets && !disabled(options, "bucket"))
    passes.push_back(
        {"bucket", Bits::exact, [b = *options.buckets](const ir::Graph& g) { return bucket(g, b); }});
  if (!disabled(options, "order"))
    passes.push_back({"order", Bits::exact, [o = options.order](const ir::Graph& g) { return order(g, o); }});
}

}  // namespace

bool microbatches_take_turns(const PassOptions& options) {
  return (options.partition || options.context) && options.turns != Turns::none && !options.stage &&
         !disabled(options, "alternate");
}

std::vector<Pass> forward_passes(const PassOptions& options, int rounds) {
  // In a validation no rank is told the tokens of the others, so whole tables are sent.
  PassOptions whole = options;
  whole.rows = false;
  // No backward follows.
  whole.turns = Turns::none;
  whole.recompute = {};
  if (whole.stage) {
    if (whole.stage->sizes.chunks == 1) whole.stage->kind = PipelineKind::gpipe;
    whole.stage->sizes.microbatches = rounds;
  }
  std::vector<Pass> passes;
  append_cuts_and_fuse(whole, passes);
  append_head_and_types(whole, passes);
  append_sharding(whole, passes);
  append_order(whole, passes);
  return passes;
}

std::vector<Pass> before_sharding(const PassOptions& options) {
  std::vector<Pass> passes;
  append_cuts_and_fuse(options, passes);
  passes.push_back({"autodiff", Bits::exact, [](const ir::Graph& g) { return autodiff(g); }});
  passes.push_back(
      {"update", Bits::exact, [o = options.update](const ir::Graph& g) { return update(g, o); }});
  append_head_and_types(options, passes);
  return passes;
}

std::vector<Pass> sharding(const PassOptions& options) {
  std::vector<Pass> passes;
  append_sharding(options, passes);
  return passes;
}

std::vector<Pass> after_sharding(const PassOptions& options) {
  std::vector<Pass> passes;
  append_order(options, passes);
  return passes;
}

std::vector<Pass> training_passes(const PassOptions& options) {
  std::vector<Pass> passes = before_sharding(options);
  append_sharding(options, passes);
  append_order(options, passes);
  return passes;
}

std::vector<Unit> units_of_rank(const std::vector<Unit>& model, const std::optional<StageOptions>& stage,
                                int tensor_ranks) {
  std::vector<Unit> own;
  for (std::size_t unit = 0; unit < model.size(); ++unit)
    if (!stage || stage->has_unit(unit)) own.push_back(model[unit]);
  return tensor_ranks > 1 ? partitioned(own, tensor_ranks) : with_norms_apart(own);
}

void check_disabled(const PassOptions& options, const std::string& place) {
  static constexpr std::array optional{"fuse",           "residual", "head",      "recompute",
                                       "quantize_first", "hoist",    "alternate", "bucket",
                                       "order",          "memory",   "share",     "rows"};
  for (const std::string& name : options.disable)
    WEFT_VALIDATE(std::find(optional.begin(), optional.end(), name) != optional.end(),
                  "{}: '{}' cannot be switched off (passes that can: {})", place, name,
                  fmt::join(optional, ", "));
}

ir::Graph run(const std::vector<Pass>& passes, const ir::Graph& graph, const Observer& observer) {
  std::optional<ir::Graph> last;
  for (const Pass& pass : passes) {
    const ir::Graph& before = last ? *last : graph;
    ir::Graph next = pass.run(before);
#ifdef WEFT_DEBUG
    verify_all(next);
#endif
    if (observer) observer(pass, before, next);
    last = std::move(next);
  }
  if (!last) last = graph;
  verify_all(*last);
  return *std::move(last);
}

}  // namespace weft::passes
