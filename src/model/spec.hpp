// Describes the shape of a Llama, and lays out its parameters in units.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/unit.hpp"

namespace weft::model {

/// The shape of a Llama 3: pre-norm RMSNorm, grouped-query causal attention with rotary positions, SwiGLU, no
/// biases.
struct Spec {
  std::int64_t dim = 0, layers = 0, heads = 0, kv_heads = 0, ffn = 0, vocab = 0;
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  bool document_mask = false;         ///< attention stays within a document; positions tell where one begins
  bool deterministic = true;          ///< attention's gradient is summed in an order that does not change
  std::vector<std::string> float8{};  ///< the paths of the units whose products are made in Float8
  bool f32_norms = false;             ///< norms' weights are read as fp32 beside others in bf16

  std::int64_t head_dim() const { return dim / heads; }
  std::int64_t kv_dim() const { return kv_heads * head_dim(); }
};

/// The units in forward order: "embed"; "layers.N.attn" and "layers.N.ffn" for each block; "head". wq|wk|wv
/// are adjacent, and so are w1|w3, so that a fused matmul reads a view. With tied embeddings the head has
/// only its norm.
/// This is also the table by which the pass partition cuts the model over a tensor axis: norms stay whole,
/// and of wk and wv a rank has whole heads.
std::vector<Unit> units(const Spec& spec);
/// How many units the model has.
constexpr std::int64_t unit_count(const Spec& spec) {
  return 2 + 2 * spec.layers;
}

/// The index of the first unit of a layer, or of the head for the number behind the last layer.
constexpr std::size_t first_unit_of_layer(std::size_t layer) {
  return 1 + 2 * layer;
}
/// The place of a unit in a list of the embedding, all layers, and the head.
constexpr std::size_t layer_of_unit(std::size_t unit) {
  return (unit + 1) / 2;
}

/// All that a checkpoint must have in common with the model that loads it, one "key = value" a line.
std::string key(const Spec& spec);

}  // namespace weft::model
