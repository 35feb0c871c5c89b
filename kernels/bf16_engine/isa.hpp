// Internal: what the engine's x86 sources share. Functions carry their instruction set, so that a build for
// an older processor has them, too.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define WEFT_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define WEFT_AMX __attribute__((target("avx512f,amx-tile,amx-bf16")))

namespace weft::kernels::bf16_engine {

/// A mask of the first n of 32.
constexpr std::uint32_t first_bits(int n) {
  return n >= 32 ? ~0u : n <= 0 ? 0u : (1u << n) - 1;
}

/// Sixteen bf16 as fp32.
WEFT_AVX512 inline __m512 from_bits(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

}  // namespace weft::kernels::bf16_engine
