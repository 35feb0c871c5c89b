// Cuts the layers of a model into the stages of a pipe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/mesh.hpp"
#include "deck/deck.hpp"
#include "passes/passes.hpp"

namespace weft::compile {

/// How many stages the model can have at most: its embedding, each layer and its head are one then.
inline std::int64_t most_stages(const Deck& deck) {
  return deck.model.layers + 2;
}

/// How many layers each stage of the mesh's pipe has: pipeline.layers, or layers and head balanced by their
/// FLOPs. They depend on the deck and the mesh alone. Throws Error(bad_input) when there are fewer layers
/// than stages, pipeline.layers has another number of stages, or zbv has more layers to balance than
/// pipe::most_folded_layers.
std::vector<std::int64_t> layers_of_stages(const Deck& deck, const Mesh& mesh);

/// The stages of the rank at `pipe_rank` of the mesh's pipe; none without a pipe. Throws as
/// layers_of_stages().
std::optional<passes::StageOptions> stage_options(const Deck& deck, const Mesh& mesh, int pipe_rank);

}  // namespace weft::compile
