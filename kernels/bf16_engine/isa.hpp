// Internal: functions that the engine's x86 sources share. Each function carries its instruction set, so that
// a build for an older processor has them, too.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define WEFT_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define WEFT_AMX __attribute__((target("avx512f,amx-tile,amx-bf16")))

namespace weft::kernels::bf16_engine {

/// A mask of the first n of 32 bits.
constexpr std::uint32_t first_bits(int n) {
  return n >= 32 ? ~0u : n <= 0 ? 0u : (1u << n) - 1;
}

/// Converts sixteen bf16 to fp32.
WEFT_AVX512 inline __m512 from_bits(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
/// Rounds thirty-two fp32 to bf16.
WEFT_AVX512 inline __m512i to_bits(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// 2^x with an error of 4e-7; 0 below 2^-126, where a vector with one denormal takes as long as ten without.
WEFT_AVX512 inline __m512 exp2_of(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r = _mm512_sub_ps(x, n);  // -1/2 to 1/2: the interval with the least error for degree five
  __m512 p = _mm512_set1_ps(1.327647013e-3f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.675540961e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.550713465e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.402212024e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.931469440e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-126), _CMP_NLT_UQ), p, n);
}

}  // namespace weft::kernels::bf16_engine
