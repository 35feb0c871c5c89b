// Internal, host only: what bf16_engine/attention.cpp does to blocks of scores (bf16_engine/tiles.hpp)
// between its products. Powers are of two, so scores are scaled by log2(e), too.
#pragma once

#include "kernels/bf16_engine/tiles.hpp"

namespace weft::kernels::bf16_engine {

/// How many keys (in the backward: queries) are taken at a time.
inline constexpr std::int64_t chunk_blocks = 4, chunk = chunk_blocks * side;
/// A score that is less than any other, and finite, so that a difference from it is a number. It stands for
/// queries that have seen no key yet.
inline constexpr float never = -1e30f;

/// Rows of 32 by 128 bf16, in the form that multiply() reads.
using Chunk = Bits[side * chunk];
constexpr Left left_of(const Chunk& rows) {
  return {rows, chunk, half * chunk, side};
}

/// What is known of 32 queries: the largest scaled score so far, and the sum of powers in 16 parts. Sums that
/// were made with an older `largest` must be multiplied by `factor`.
struct Softmax {
  alignas(64) float largest[side], factor[side], parts[side][half];
};

/// Turns the scores [query, key] of up to four blocks into p = 2^(scale score - largest); scores that a query
/// does not see count as minus infinity. The first query stands `behind` tokens behind the first key, which
/// is `key`. `first_keys`: by query, the first key that it sees, or null. Returns whether some query's
/// largest score has changed.
bool probabilities(float* scores, std::int64_t blocks, std::int64_t behind, const std::int32_t* first_keys,
                   std::int64_t key, float scale, Softmax& softmax, Chunk& p);

/// Sets `factor` to what the sums of p's products must be multiplied by. The natural logarithms of the sums
/// of powers of the first `queries` go to lse.
void finish(Softmax& softmax, int queries, float* lse);

/// Multiplies row i of each block by factor[i].
void scale_rows(float* sums, std::int64_t blocks, const float* factor);

/// For 32 keys (rows) and the queries of up to four blocks: p = 2^(scale score - lse) and ds = p (dp -
/// delta). The first query stands `behind` tokens behind the first key, which is `key`; less than none where
/// it stands before it. `first_keys`: by query, the first key that it sees, 64-byte aligned, or null.
void score_gradients(const float* scores, const float* dp, std::int64_t blocks, std::int64_t behind,
                     const std::int32_t* first_keys, std::int64_t key, float scale, const float* lse,
                     const float* delta, Chunk& p, Chunk& ds);

/// The sum of a[i] b[i].
float dot(const Bits* a, const Bits* b, std::int64_t n);

}  // namespace weft::kernels::bf16_engine
