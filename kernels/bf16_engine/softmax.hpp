// Internal, host only: what bf16_engine/attention.cpp does to blocks of scores (bf16_engine/tiles.hpp)
// between its products. Powers are of two: scores are scaled by log2(e), too.
#pragma once

#include "kernels/bf16_engine/tiles.hpp"

namespace weft::kernels::bf16_engine {

/// Keys (in backward: queries) at a time.
inline constexpr std::int64_t chunk_blocks = 4, chunk = chunk_blocks * side;
/// Less than any score, and finite: of what nobody has seen yet, the difference from it is a number.
inline constexpr float never = -1e30f;

/// Rows of 32 by 128 bf16, as multiply() reads them.
using Chunk = Bits[side * chunk];
constexpr Left left_of(const Chunk& rows) {
  return {rows, chunk, half * chunk, side};
}

/// Of 32 queries: the largest scaled score so far, and the sum of powers in 16 parts; `factor` is what sums
/// made with an older `largest` are to be multiplied by.
struct Softmax {
  alignas(64) float largest[side], factor[side], parts[side][half];
};

/// The scores [query, key] of up to four blocks, of which those that a query does not see become minus
/// infinity, give p = 2^(scale score - largest). `diagonal`: the last block's keys are the queries.
/// `first_keys`: by query, the first key that it sees, or null; `key` is the first of these. True if some
/// query's largest has changed.
bool probabilities(float* scores, std::int64_t blocks, bool diagonal, const std::int32_t* first_keys,
                   std::int64_t key, float scale, Softmax& softmax, Chunk& p);

/// `factor` becomes what the sums that p was multiplied into are to be multiplied by; the first `queries`
/// natural logarithms of the sums of powers go to lse.
void finish(Softmax& softmax, int queries, float* lse);

/// Row i of each block times factor[i].
void scale_rows(float* sums, std::int64_t blocks, const float* factor);

/// Of 32 keys (rows) and the queries of up to four blocks: p = 2^(scale score - lse) and ds = p (dp - delta).
/// `diagonal`: the first block's queries are the keys. `first_keys`: by query, the first key that it sees,
/// 64-byte aligned, or null; `key` is the first of the 32.
void score_gradients(const float* scores, const float* dp, std::int64_t blocks, bool diagonal,
                     const std::int32_t* first_keys, std::int64_t key, float scale, const float* lse,
                     const float* delta, Chunk& p, Chunk& ds);

/// The sum of a[i] b[i].
float dot(const Bits* a, const Bits* b, std::int64_t n);

}  // namespace weft::kernels::bf16_engine
