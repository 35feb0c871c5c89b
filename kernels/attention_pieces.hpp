// Internal: adds up the gradients of keys that a library makes piece by piece.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// Gradients [`count`, B, `tokens`, W] of the first tokens of each sequence.
struct GradientPieces {
  const bf16* data = nullptr;
  std::int64_t count = 0, tokens = 0;
};

/// A sum of pieces: W elements of each of the T tokens of B sequences, of which a token has `token_width`.
struct PieceSum {
  std::int64_t batch, seq, width, token_width;  ///< B, T, W
  GradientPieces pieces[2];
  /// How many tokens of a sequence have a piece in the sum itself, which the others are added to.
  std::int64_t tokens_in_place;
};

/// sum[b, t, i] = the pieces' values, added in fp32 in their order; zero for tokens that no piece has.
void sum_pieces(Space& space, const PieceSum& pieces, bf16* sum);

}  // namespace weft::kernels
