// Element types, and the storage types of 16 and 8 bits, which Weft owns because Kokkos::bhalf_t is float
// without a device back end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__CUDACC__) || defined(__HIP__)
#define WEFT_FUNCTION __host__ __device__ inline
#else
#define WEFT_FUNCTION inline
#endif

namespace weft {

enum class DType : std::uint8_t { f32, bf16, f64, i32, i64, u16, u32, u64, u8, e4m3, e5m2 };

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
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2: return 1;
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

/// std::bit_cast for code of both sides: that one is a function of the host to nvcc.
template <class To, class From>
WEFT_FUNCTION To bit_cast(From x) {
  return __builtin_bit_cast(To, x);
}

WEFT_FUNCTION float to_float(bf16 x) {
  return bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
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
  const auto u = bit_cast<std::uint32_t>(x);
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

/// The two formats of 8 bits (Micikevicius et al., 2022, "FP8 formats for deep learning", arXiv 2209.05433):
/// `e4m3` has 4 bits of exponent and 3 of mantissa, and no infinity; `e5m2` has 5 and 2.
struct e4m3 {
  std::uint8_t bits = 0;
};
struct e5m2 {
  std::uint8_t bits = 0;
};

/// The largest finite value of a format.
template <class T>
inline constexpr float largest = 0;
template <>
inline constexpr float largest<e4m3> = 448;
template <>
inline constexpr float largest<e5m2> = 57344;

namespace detail {

/// What differs between the formats. `first_nan` is the first of the bits of NaNs, without a sign, and `nan`
/// those that are written. `rounds_to_steps` added to a number below the smallest normal one rounds it to a
/// multiple of the smallest.
template <class T>
struct Float8Format;
template <>
struct Float8Format<e4m3> {
  static constexpr std::uint32_t mantissa = 3, bias = 7, first_nan = 0x7f, nan = 0x7f;
  static constexpr bool has_infinity = false;
  static constexpr float smallest_normal = 0x1p-6f, smallest = 0x1p-9f, rounds_to_steps = 0x1p14f;
};
template <>
struct Float8Format<e5m2> {
  static constexpr std::uint32_t mantissa = 2, bias = 15, first_nan = 0x7d, nan = 0x7f;
  static constexpr bool has_infinity = true;
  static constexpr float smallest_normal = 0x1p-14f, smallest = 0x1p-16f, rounds_to_steps = 0x1p7f;
};

template <class T>
WEFT_FUNCTION float float8_to_float(std::uint32_t bits) {
  using Format = Float8Format<T>;
  const std::uint32_t magnitude = bits & 0x7fu;
  const float small = static_cast<float>(magnitude) * Format::smallest;
  auto u = bit_cast<std::uint32_t>(small);
  u = magnitude >> Format::mantissa == 0
          ? u
          : (magnitude << (23 - Format::mantissa)) + ((127 - Format::bias) << 23);
  if constexpr (Format::has_infinity) u = magnitude == Format::first_nan - 1 ? 0x7f800000u : u;
  u = magnitude >= Format::first_nan ? 0x7fc00000u : u;
  u |= (bits & 0x80u) << 24;
  return bit_cast<float>(u);
}

}  // namespace detail

/// The value of 8 bits, exactly. (It is one of bf16's, too.)
WEFT_FUNCTION float to_float(e4m3 x) {
  return detail::float8_to_float<e4m3>(x.bits);
}
WEFT_FUNCTION float to_float(e5m2 x) {
  return detail::float8_to_float<e5m2>(x.bits);
}

/// Rounds to nearest, ties to even; what is larger than the largest finite value becomes that, infinity too.
/// A NaN becomes the format's.
template <class T>
WEFT_FUNCTION T to_float8(float x) {
  using Format = detail::Float8Format<T>;
  const auto u = bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = u >> 24 & 0x80u;
  const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
  auto magnitude = bit_cast<float>(u & 0x7fffffffu);
  magnitude = magnitude < largest<T> ? magnitude : largest<T>;
  const float stepped = magnitude + Format::rounds_to_steps;
  const auto steps = bit_cast<std::uint32_t>(stepped), bits = bit_cast<std::uint32_t>(magnitude);
  constexpr std::uint32_t dropped = 23 - Format::mantissa;
  const std::uint32_t normal = ((bits + (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1u)) >> dropped) -
                               ((127 - Format::bias) << Format::mantissa);
  const std::uint32_t result = magnitude < Format::smallest_normal ? steps & 0xffu : normal;
  return T{static_cast<std::uint8_t>(sign | (is_nan ? Format::nan : result))};
}

}  // namespace weft
