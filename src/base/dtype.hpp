// Element types, and the 16-bit storage type that Weft owns because Kokkos::bhalf_t is float without a device
// back end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__CUDACC__)
#define WEFT_FUNCTION __host__ __device__ inline
#else
#define WEFT_FUNCTION inline
#endif

namespace weft {

enum class DType : std::uint8_t { f32, bf16, f64, i32, i64, u16, u32, u64, u8 };

/// Bytes of one element.
constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64:
    case DType::u64: return 8;
    case DType::f32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::bf16:
    case DType::u16: return 2;
    case DType::u8: return 1;
  }
  return 0;
}

/// How products of f32 operands are computed where there is a choice: `split`, from three bf16 pieces of each
/// (kernels/bf16_engine/split_product.hpp), or `plain`, by f32 arithmetic.
enum class F32Products : std::uint8_t { split, plain };

/// The type's name in decks, graph text and checkpoints: "f32", "bf16", ...
std::string_view name_of(DType t);
/// The inverse of name_of; throws Error(bad_input) that lists the names.
DType dtype_from(std::string_view name);

/// bfloat16 storage: the upper half of an fp32. Arithmetic is done in float.
struct bf16 {
  std::uint16_t bits = 0;
};

WEFT_FUNCTION float to_float(bf16 x) {
  const std::uint32_t u = static_cast<std::uint32_t>(x.bits) << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
WEFT_FUNCTION float to_float(float x) {
  return x;
}

/// Rounds to nearest, ties to even; a NaN stays a quiet NaN. The bits are those of PyTorch's and oneDNN's
/// conversion.
WEFT_FUNCTION bf16 to_bf16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  bf16 result;  // the device's own instruction, which makes one NaN of all
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
#else
  std::uint32_t u;
  memcpy(&u, &x, sizeof u);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return bf16{static_cast<std::uint16_t>(nan ? ((u >> 16) | 0x40u) : rounded)};
#endif
}

/// store<T>(x) converts fp32 to the storage type T.
template <class T>
WEFT_FUNCTION T from_float(float x);
template <>
WEFT_FUNCTION float from_float<float>(float x) {
  return x;
}
template <>
WEFT_FUNCTION bf16 from_float<bf16>(float x) {
  return to_bf16(x);
}

}  // namespace weft
