#include "report/flops.hpp"

namespace weft::report {

ModelSize model_size(const Deck& deck) {
  ModelSize size;
  size.parameters = parameter_count(deck.model);
  size.embedding_parameters = deck.model.tie_embeddings ? 0 : deck.model.vocab * deck.model.dim;
  size.layers = deck.model.layers;
  size.heads = deck.model.heads;
  size.head_dim = deck.model.dim / deck.model.heads;
  size.seq = deck.data.seq;
  return size;
}

double flops_per_token(const ModelSize& size) {
  const double matmuls = 6.0 * static_cast<double>(size.parameters - size.embedding_parameters);
  // These are QK^T and PV: for each head, layer and token, 2 matmuls forward and 4 backward of 2 T D each.
  const double scores = 12.0 * static_cast<double>(size.layers) * static_cast<double>(size.heads) *
                        static_cast<double>(size.head_dim) * static_cast<double>(size.seq);
  return matmuls + scores;
}

std::optional<double> mfu(double tokens_per_s, double flops_per_token, double peak_flops) {
  if (!(peak_flops > 0)) return std::nullopt;
  return tokens_per_s * flops_per_token / peak_flops;
}

}  // namespace weft::report
