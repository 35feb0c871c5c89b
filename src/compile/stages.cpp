#include "compile/stages.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "compile/programs.hpp"
#include "ops/cost.hpp"
#include "pipe/balance.hpp"

namespace weft::compile {
namespace {

/// The forward's FLOPs and the parameters of the embedding, of each layer, and of the head.
std::vector<pipe::LayerCost> costs_of_layers(const Deck& deck) {
  const model::Spec spec = spec_of(deck);
  const ir::Graph graph =
      model::build_loss(spec, {deck.data.batch, deck.data.seq, 1}, Mesh({{"data", 1}}), "train").graph;
  std::vector<pipe::LayerCost> costs(static_cast<std::size_t>(most_stages(deck)));
  std::map<std::string, std::size_t> layer_of;  // by the unit's path
  for (std::size_t unit = 0; unit < graph.units().size(); ++unit) {
    const std::size_t layer = model::layer_of_unit(unit);
    layer_of[graph.units()[unit].path] = layer;
    costs[layer].bytes += static_cast<double>(graph.units()[unit].elements);
  }
  for (const ir::Node& node : graph.nodes())
    if (const auto layer = layer_of.find(node.module); layer != layer_of.end())
      costs[layer->second].seconds += ops::cost(graph, node).flops;
  return costs;
}

std::vector<int> balanced_lengths(const Deck& deck, int ranks) {
  const std::vector<pipe::LayerCost> costs = costs_of_layers(deck);
  const int stages = ranks * static_cast<int>(deck.pipeline.chunks);
  try {
    return folds(deck.pipeline.schedule) ? pipe::balance_folded(costs, ranks) : pipe::balance(costs, stages);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}", place_of(deck, "pipeline.layers"), e.what()));
  }
}

/// balanced_lengths(), remembered: it makes a graph of the whole model, and planning asks for one pipe many
/// times.
std::vector<int> remembered_lengths(const Deck& deck, int ranks) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<int>> known;
  const model::Spec spec = spec_of(deck);
  const std::string key = fmt::format("{}\n{} {} {} {}\n{} {} {}", model::key(spec), spec.document_mask,
                                      fmt::join(spec.float8, " "), deck.data.batch, deck.data.seq, ranks,
                                      deck.pipeline.chunks, folds(deck.pipeline.schedule));
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  std::vector<int> lengths = balanced_lengths(deck, ranks);
  const std::lock_guard lock(mutex);
  return known.emplace(key, std::move(lengths)).first->second;
}

std::vector<std::int64_t> balanced(const Deck& deck, int ranks) {
  const std::vector<int> lengths = remembered_lengths(deck, ranks);
  std::vector<std::int64_t> layers(lengths.begin(), lengths.end());
  --layers.front();  // the embedding
  --layers.back();   // the head
  return layers;
}

}  // namespace

std::vector<std::int64_t> layers_of_stages(const Deck& deck, const Mesh& mesh) {
  const int ranks = mesh.size(pipe_axis);
  const std::int64_t stages = ranks * deck.pipeline.chunks;
  WEFT_VALIDATE(stages <= most_stages(deck),
                "{}: {} ranks of {} chunks are {} stages, and the model has {} layers, embedding and head "
                "included; use at most as many stages",
                place_of(deck, deck.pipeline.chunks > 1 ? "pipeline.chunks" : "parallel.mesh"), ranks,
                deck.pipeline.chunks, stages, most_stages(deck));
  if (deck.pipeline.layers.empty()) return balanced(deck, ranks);
  const auto given = static_cast<std::int64_t>(deck.pipeline.layers.size());
  WEFT_VALIDATE(given == stages, "{}: layers of {} stages, but {} ranks of {} chunks have {}",
                place_of(deck, "pipeline.layers"), given, ranks, deck.pipeline.chunks, stages);
  return deck.pipeline.layers;
}

std::optional<passes::StageOptions> stage_options(const Deck& deck, const Mesh& mesh, int pipe_rank) {
  const int ranks = mesh.size(pipe_axis);
  if (ranks == 1) return std::nullopt;
  passes::StageOptions options;
  options.kind = deck.pipeline.schedule;
  options.sizes = {ranks, static_cast<int>(deck.pipeline.chunks),
                   static_cast<int>(accumulation(deck, mesh.batch_ranks()))};
  options.rank = pipe_rank;
  std::int64_t layer = 0;
  for (const std::int64_t layers : layers_of_stages(deck, mesh)) {
    const bool first = options.first_units.empty();
    options.first_units.push_back(first ? 0 : model::first_unit_of_layer(static_cast<std::size_t>(layer)));
    layer += layers;
  }
  const int last = options.places().place(options.sizes.stages() - 1);
  if (deck.model.tie_embeddings && last != 0) {  // the head, in the last stage, reads the first unit
    if (pipe_rank == 0) options.twins.push_back({0, last, false});
    if (pipe_rank == last) options.twins.push_back({0, 0, true});
  }
  return options;
}

}  // namespace weft::compile
