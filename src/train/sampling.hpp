// Picks the next token from a row of logits.
#pragma once

#include <cstdint>
#include <span>

#include "base/rng.hpp"

namespace weft::train {

struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; 0 takes the largest logit
  std::int64_t top_k = 0;  ///< how many of the largest logits are kept; 0 keeps all
  /// Of the tokens that top_k leaves, the fewest are kept whose probabilities together reach p (Holtzman et
  /// al., 2020); 1 keeps all.
  double top_p = 1;
};

/// Throws Error(bad_input) on a temperature below 0, a top_k below 0 or a top_p outside (0, 1].
void validate(const SamplingOptions& options);

/// Draws a token id from softmax(logits / temperature) after top-k and then top-p, in fp64. The draw is
/// number `position` of `stream`, so text is a function of seed and prompt. Equal logits rank by id, lowest
/// first. -inf excludes a token. Throws Error(failure) when a logit is NaN or +inf, or all are -inf, because
/// the checkpoint is then broken.
std::int64_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          const RandomStream& stream, std::uint64_t position);

}  // namespace weft::train
