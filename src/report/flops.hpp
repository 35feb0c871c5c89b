// Counts model FLOPs: what the mathematics of a training step needs, whatever the run recomputes. MFU is
// measured by them.
#pragma once

#include <cstdint>
#include <optional>

#include "deck/deck.hpp"

namespace weft::report {

struct ModelSize {
  std::int64_t parameters = 0;  ///< N: every parameter counts once
  /// N_embedding: parameters that are only looked up; 0 when the table is also the head (tied).
  std::int64_t embedding_parameters = 0;
  std::int64_t layers = 0;    ///< L
  std::int64_t heads = 0;     ///< H, query heads
  std::int64_t head_dim = 0;  ///< D
  std::int64_t seq = 0;       ///< T
};
ModelSize model_size(const Deck& deck);

/// FLOPs of forward and backward for one token: 6 (N - N_embedding) + 12 L H D T. Attention's T x T matmuls
/// are counted as if nothing were masked, as PaLM (Chowdhery et al., 2022, appendix B) and torchtitan do. A
/// multiply-add counts two; recomputation, norms and the optimizer count nothing.
double flops_per_token(const ModelSize& size);

/// Model FLOPs utilisation: tokens_per_s * flops_per_token / peak_flops, both over the same ranks. It is
/// empty when the peak is not known (0), so that nobody reads a made-up number.
std::optional<double> mfu(double tokens_per_s, double flops_per_token, double peak_flops);

}  // namespace weft::report
