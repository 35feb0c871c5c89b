// Internal: the list of the x86-64 instruction sets that compilers use without being asked.
#pragma once

/// X(the compiler's macro, name, leaf and subleaf of cpuid, register, bit, vector registers that the system
/// saves).
#define WEFT_INSTRUCTION_SETS(X)                                 \
  X(__SSE3__, "sse3", 1, 0, ecx, 0, xmm)                         \
  X(__SSSE3__, "ssse3", 1, 0, ecx, 9, xmm)                       \
  X(__FMA__, "fma", 1, 0, ecx, 12, ymm)                          \
  X(__SSE4_1__, "sse4.1", 1, 0, ecx, 19, xmm)                    \
  X(__SSE4_2__, "sse4.2", 1, 0, ecx, 20, xmm)                    \
  X(__MOVBE__, "movbe", 1, 0, ecx, 22, xmm)                      \
  X(__POPCNT__, "popcnt", 1, 0, ecx, 23, xmm)                    \
  X(__AVX__, "avx", 1, 0, ecx, 28, ymm)                          \
  X(__F16C__, "f16c", 1, 0, ecx, 29, ymm)                        \
  X(__BMI__, "bmi1", 7, 0, ebx, 3, xmm)                          \
  X(__AVX2__, "avx2", 7, 0, ebx, 5, ymm)                         \
  X(__BMI2__, "bmi2", 7, 0, ebx, 8, xmm)                         \
  X(__AVX512F__, "avx512f", 7, 0, ebx, 16, zmm)                  \
  X(__AVX512DQ__, "avx512dq", 7, 0, ebx, 17, zmm)                \
  X(__ADX__, "adx", 7, 0, ebx, 19, xmm)                          \
  X(__AVX512IFMA__, "avx512ifma", 7, 0, ebx, 21, zmm)            \
  X(__AVX512CD__, "avx512cd", 7, 0, ebx, 28, zmm)                \
  X(__AVX512BW__, "avx512bw", 7, 0, ebx, 30, zmm)                \
  X(__AVX512VL__, "avx512vl", 7, 0, ebx, 31, zmm)                \
  X(__AVX512VBMI__, "avx512_vbmi", 7, 0, ecx, 1, zmm)            \
  X(__AVX512VBMI2__, "avx512_vbmi2", 7, 0, ecx, 6, zmm)          \
  X(__GFNI__, "gfni", 7, 0, ecx, 8, xmm)                         \
  X(__AVX512VNNI__, "avx512_vnni", 7, 0, ecx, 11, zmm)           \
  X(__AVX512BITALG__, "avx512_bitalg", 7, 0, ecx, 12, zmm)       \
  X(__AVX512VPOPCNTDQ__, "avx512_vpopcntdq", 7, 0, ecx, 14, zmm) \
  X(__AVX512FP16__, "avx512_fp16", 7, 0, edx, 23, zmm)           \
  X(__AVXVNNI__, "avx_vnni", 7, 1, eax, 4, ymm)                  \
  X(__AVX512BF16__, "avx512_bf16", 7, 1, eax, 5, zmm)            \
  X(__LZCNT__, "lzcnt", 0x80000001U, 0, ecx, 5, xmm)
