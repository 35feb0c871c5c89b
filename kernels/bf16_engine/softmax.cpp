#include "kernels/bf16_engine/softmax.hpp"

#include <immintrin.h>

#include <algorithm>

#include "kernels/bf16_engine/isa.hpp"

namespace weft::kernels::bf16_engine {
namespace {

WEFT_AVX512 inline void store_bits(Bits* to, __m512 low, __m512 high) {
  _mm512_store_si512(to, to_bits(low, high));
}

template <int blocks>
WEFT_AVX512 void probabilities_of(const float* scores, bool diagonal, const std::int32_t* first_keys,
                                  std::int64_t key, float scale, Softmax& m, Chunk& p) {
  constexpr int parts = 2 * blocks;
  const __m512 factor = _mm512_set1_ps(scale);
  for (int i = 0; i < side; ++i) {
    const int skipped = first_keys == nullptr ? 0 : first_keys[i] - static_cast<int>(key);
    if (skipped >= blocks * side) {
      m.factor[i] = 1;
#pragma GCC unroll 4
      for (int j = 0; j < blocks; ++j)
        store_bits(p + i * chunk + j * side, _mm512_setzero_ps(), _mm512_setzero_ps());
      continue;
    }
    __m512 t[parts];
#pragma GCC unroll 8
    for (int j = 0; j < parts; ++j)
      t[j] = _mm512_load_ps(scores + j / 2 * block_size + i * side + j % 2 * half);
    if (diagonal) {
      const std::uint32_t past = i == side - 1 ? ~0u : (2u << i) - 1;
      const __m512 masked = _mm512_set1_ps(never);
      t[parts - 2] = _mm512_mask_mov_ps(masked, static_cast<__mmask16>(past), t[parts - 2]);
      t[parts - 1] = _mm512_mask_mov_ps(masked, static_cast<__mmask16>(past >> half), t[parts - 1]);
    }
    if (skipped > 0)
      for (int j = 0; j < parts; ++j) {
        const auto seen = static_cast<__mmask16>(~first_bits(skipped - j * half));
        t[j] = _mm512_mask_mov_ps(_mm512_set1_ps(never), seen, t[j]);
      }
    __m512 most = t[0];
#pragma GCC unroll 8
    for (int j = 1; j < parts; ++j) most = _mm512_max_ps(most, t[j]);
    const float before = m.largest[i], largest = std::max(before, scale * _mm512_reduce_max_ps(most));
    const __m512 shift = _mm512_set1_ps(largest);
    m.factor[i] = 1;
    __m512 sum = _mm512_load_ps(m.parts[i]);
    if (largest > before) {
      const __m512 older = exp2_of(_mm512_set1_ps(before - largest));
      sum = _mm512_mul_ps(sum, older);
      m.factor[i] = _mm512_cvtss_f32(older);
      m.largest[i] = largest;
    }
#pragma GCC unroll 8
    for (int j = 0; j < parts; ++j) {
      t[j] = exp2_of(_mm512_fmsub_ps(t[j], factor, shift));
      sum = _mm512_add_ps(sum, t[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < blocks; ++j) store_bits(p + i * chunk + j * side, t[2 * j], t[2 * j + 1]);
    _mm512_store_ps(m.parts[i], sum);
  }
}

}  // namespace

void probabilities(const float* scores, std::int64_t blocks, bool diagonal, const std::int32_t* first_keys,
                   std::int64_t key, float scale, Softmax& m, Chunk& p) {
  switch (blocks) {
    case 1: return probabilities_of<1>(scores, diagonal, first_keys, key, scale, m, p);
    case 2: return probabilities_of<2>(scores, diagonal, first_keys, key, scale, m, p);
    case 3: return probabilities_of<3>(scores, diagonal, first_keys, key, scale, m, p);
    default: return probabilities_of<4>(scores, diagonal, first_keys, key, scale, m, p);
  }
}

WEFT_AVX512 void scale_rows(float* sums, std::int64_t blocks, const float* factor) {
  for (int i = 0; i < side; ++i) {
    if (factor[i] == 1) continue;
    const __m512 f = _mm512_set1_ps(factor[i]);
    for (std::int64_t d = 0; d < blocks; ++d)
      for (float* x : {sums + d * block_size + i * side, sums + d * block_size + i * side + half})
        _mm512_store_ps(x, _mm512_mul_ps(_mm512_load_ps(x), f));
  }
}

WEFT_AVX512 void score_gradients(const float* scores, const float* dp, std::int64_t blocks, bool diagonal,
                                 const std::int32_t* first_keys, std::int64_t key, float scale,
                                 const float* lse, const float* delta, Chunk& p, Chunk& ds) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (std::int64_t j = 0; j < blocks; ++j) {
    const __m512 lse_of[2] = {_mm512_load_ps(lse + j * side), _mm512_load_ps(lse + j * side + half)};
    const __m512 delta_of[2] = {_mm512_load_ps(delta + j * side), _mm512_load_ps(delta + j * side + half)};
    for (int i = 0; i < side; ++i) {
      std::uint32_t seen = j == 0 && diagonal ? ~0u << i : ~0u;  // by queries not before the key
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
