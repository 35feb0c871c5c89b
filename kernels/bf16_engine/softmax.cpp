#include "kernels/bf16_engine/softmax.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cmath>

#include "kernels/bf16_engine/isa.hpp"

namespace weft::kernels::bf16_engine {
namespace {

WEFT_AVX512 inline void store_bits(Bits* to, __m512 low, __m512 high) {
  _mm512_store_si512(to, to_bits(low, high));
}

enum class Fold : std::uint8_t { sum, largest };
template <Fold F>
WEFT_AVX512 inline __m512 fold(__m512 a, __m512 b) {
  return F == Fold::sum ? _mm512_add_ps(a, b) : _mm512_max_ps(a, b);
}

/// Folds each even part of 128 bits with the next one: those of a, and then those of b.
template <Fold F>
WEFT_AVX512 inline __m512 fold_lanes(__m512 a, __m512 b) {
  return fold<F>(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/// Lane i of the result folds all lanes of r[i]. It destroys r.
template <Fold F>
WEFT_AVX512 inline __m512 fold_rows(__m512 (&r)[half]) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    r[i] = fold<F>(_mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]), _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(r[2 * i]), b = _mm512_castps_pd(r[2 * i + 1]);
    r[i] = fold<F>(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  return fold_lanes<F>(fold_lanes<F>(r[0], r[1]), fold_lanes<F>(r[2], r[3]));
}

constexpr float ln_2 = 0.69314718055994531f;

/// log2 with an error of 2e-7 (absolute, or relative where that is more); a NaN gives a NaN.
WEFT_AVX512 inline __m512 log2_of(__m512 x) {
  const __m512 one = _mm512_set1_ps(1);
  const __m512 m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);
  __m512 exponent = _mm512_getexp_ps(x);
  exponent = _mm512_mask_add_ps(exponent, _mm512_cmp_ps_mask(m, one, _CMP_LT_OQ), exponent, one);
  constexpr float c = 2 / ln_2;  // the sum is c (s + s^3 / 3 + ...), with |s| <= 1/5
  const __m512 s = _mm512_div_ps(_mm512_sub_ps(m, one), _mm512_add_ps(m, one)), square = _mm512_mul_ps(s, s);
  __m512 p = _mm512_set1_ps(c / 9);
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(c / 7));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(c / 5));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(c / 3));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(c));
  return _mm512_fmadd_ps(p, s, exponent);
}

/// Sets the scores that a query does not see to minus infinity: those from `past` on, and those before
/// `skipped`.
WEFT_AVX512 inline void hide(float* scores, std::int64_t blocks, int past, int skipped) {
  const __m512 nothing = _mm512_set1_ps(-INFINITY);
  for (std::int64_t j = 0; j < blocks; ++j)
    for (int h = 0; h < 2; ++h) {
      const int key = static_cast<int>(j * side) + h * half;
      const std::uint32_t seen = first_bits(past - key) & ~first_bits(skipped - key);
      _mm512_mask_store_ps(scores + j * block_size + h * half, static_cast<__mmask16>(~seen), nothing);
    }
}

/// Updates what is known of 32 queries when more scores are seen. Returns whether the largest score of any
/// has changed.
template <int blocks>
WEFT_AVX512 inline bool see(const float* scores, float scale, Softmax& m) {
  bool changed = false;
  for (int h = 0; h < side; h += half) {
    __m512 most[half];
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) {
      const float* row = scores + (h + i) * side;
      most[i] = _mm512_max_ps(_mm512_load_ps(row), _mm512_load_ps(row + half));
#pragma GCC unroll 3
      for (int j = 1; j < blocks; ++j) {
        row += block_size;
        most[i] = _mm512_max_ps(most[i], _mm512_max_ps(_mm512_load_ps(row), _mm512_load_ps(row + half)));
      }
    }
    const __m512 before = _mm512_load_ps(m.largest + h);
    const __m512 scaled = _mm512_mul_ps(_mm512_set1_ps(scale), fold_rows<Fold::largest>(most));
    const __m512 largest = _mm512_max_ps(before, scaled);
    _mm512_store_ps(m.largest + h, largest);
    _mm512_store_ps(m.factor + h, exp2_of(_mm512_sub_ps(before, largest)));
    changed = changed || _mm512_cmp_ps_mask(before, largest, _CMP_NEQ_UQ) != 0;
  }
  return changed;
}

template <int blocks>
WEFT_AVX512 bool probabilities_of(const float* scores, float scale, Softmax& m, Chunk& p) {
  constexpr int parts = 2 * blocks;
  const bool changed = see<blocks>(scores, scale, m);
  const __m512 factor = _mm512_set1_ps(scale);
  for (int i = 0; i < side; ++i) {
    const __m512 shift = _mm512_set1_ps(m.largest[i]);
    __m512 t[parts];
#pragma GCC unroll 8
    for (int j = 0; j < parts; ++j) {
      const __m512 score = _mm512_load_ps(scores + j / 2 * block_size + i * side + j % 2 * half);
      t[j] = exp2_of(_mm512_fmsub_ps(score, factor, shift));
    }
#pragma GCC unroll 4
    for (int j = 0; j < blocks; ++j) store_bits(p + i * chunk + j * side, t[2 * j], t[2 * j + 1]);
    __m512 sum = _mm512_mul_ps(_mm512_load_ps(m.parts[i]), _mm512_set1_ps(m.factor[i]));
#pragma GCC unroll 8
    for (int j = 0; j < parts; ++j) sum = _mm512_add_ps(sum, t[j]);
    _mm512_store_ps(m.parts[i], sum);
  }
  return changed;
}

}  // namespace

bool probabilities(float* scores, std::int64_t blocks, std::int64_t behind, const std::int32_t* first_keys,
                   std::int64_t key, float scale, Softmax& m, Chunk& p) {
  const int whole = static_cast<int>(blocks) * side;
  for (int i = 0; i < side; ++i) {
    const int past = static_cast<int>(std::min<std::int64_t>(whole, behind + i + 1));
    const int skipped = first_keys == nullptr ? 0 : first_keys[i] - static_cast<int>(key);
    if (past < whole || skipped > 0) hide(scores + i * side, blocks, past, skipped);
  }
  switch (blocks) {
    case 1: return probabilities_of<1>(scores, scale, m, p);
    case 2: return probabilities_of<2>(scores, scale, m, p);
    case 3: return probabilities_of<3>(scores, scale, m, p);
    default: return probabilities_of<4>(scores, scale, m, p);
  }
}

WEFT_AVX512 void finish(Softmax& m, int queries, float* lse) {
  for (int h = 0; h < side; h += half) {
    __m512 parts[half];
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) parts[i] = _mm512_load_ps(m.parts[h + i]);
    const __m512 sum = fold_rows<Fold::sum>(parts);
    _mm512_store_ps(m.factor + h, _mm512_div_ps(_mm512_set1_ps(1), sum));
    const __m512 powers = _mm512_add_ps(_mm512_load_ps(m.largest + h), log2_of(sum));
    _mm512_mask_storeu_ps(lse + h, static_cast<__mmask16>(first_bits(queries - h)),
                          _mm512_mul_ps(powers, _mm512_set1_ps(ln_2)));
  }
}

WEFT_AVX512 void scale_rows(float* sums, std::int64_t blocks, const float* factor) {
  for (int i = 0; i < side; ++i) {
    const __m512 f = _mm512_set1_ps(factor[i]);
    for (std::int64_t d = 0; d < blocks; ++d)
      for (float* x : {sums + d * block_size + i * side, sums + d * block_size + i * side + half})
        _mm512_store_ps(x, _mm512_mul_ps(_mm512_load_ps(x), f));
  }
}

WEFT_AVX512 void score_gradients(const float* scores, const float* dp, std::int64_t blocks,
                                 std::int64_t behind, const std::int32_t* first_keys, std::int64_t key,
                                 float scale, const float* lse, const float* delta, Chunk& p, Chunk& ds) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (std::int64_t j = 0; j < blocks; ++j) {
    const __m512 lse_of[2] = {_mm512_load_ps(lse + j * side), _mm512_load_ps(lse + j * side + half)};
    const __m512 delta_of[2] = {_mm512_load_ps(delta + j * side), _mm512_load_ps(delta + j * side + half)};
    for (int i = 0; i < side; ++i) {
      // Bits of the queries that are not before the key.
      std::uint32_t seen = ~first_bits(static_cast<int>(i - behind - j * side));
      if (first_keys != nullptr) {
        const __m512i mine = _mm512_set1_epi32(static_cast<int>(key) + i);
        for (int h = 0; h < 2; ++h) {
          const __m512i theirs = _mm512_load_si512(first_keys + j * side + h * half);
          seen &= ~(static_cast<std::uint32_t>(_mm512_cmpgt_epi32_mask(theirs, mine)) << (h * half));
        }
      }
      __m512 power[2], gradient[2];
      for (int h = 0; h < 2; ++h) {
        const std::int64_t at = j * block_size + i * side + h * half;
        const auto mask = static_cast<__mmask16>(seen >> (h * half));
        const __m512 t = _mm512_fmsub_ps(_mm512_load_ps(scores + at), factor, lse_of[h]);
        power[h] = _mm512_maskz_mov_ps(mask, exp2_of(t));
        gradient[h] =
            _mm512_maskz_mul_ps(mask, power[h], _mm512_sub_ps(_mm512_load_ps(dp + at), delta_of[h]));
      }
      store_bits(p + i * chunk + j * side, power[0], power[1]);
      store_bits(ds + i * chunk + j * side, gradient[0], gradient[1]);
    }
  }
}

WEFT_AVX512 float dot(const Bits* a, const Bits* b, std::int64_t n) {
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < n; i += half) {
    const auto mask = static_cast<__mmask16>(first_bits(static_cast<int>(n - i)));
    sum = _mm512_fmadd_ps(from_bits(_mm256_maskz_loadu_epi16(mask, a + i)),
                          from_bits(_mm256_maskz_loadu_epi16(mask, b + i)), sum);
  }
  return _mm512_reduce_add_ps(sum);
}

}  // namespace weft::kernels::bf16_engine
