// Internal, host only: products of small fp32 tiles that lie in the nearest caches, in registers of the
// machine's width. GCC's vector extension keeps the accumulators in registers, which its vectoriser does not
// do for arrays.
#pragma once

#include <cstdint>

#include "base/write_mode.hpp"

namespace weft::kernels::tile {

#if defined(__AVX512F__)
inline constexpr int width = 16;
inline constexpr int micro_rows = 6;
inline constexpr int micro_vectors = 4;
#elif defined(__AVX__)
inline constexpr int width = 8;
inline constexpr int micro_rows = 6;
inline constexpr int micro_vectors = 2;
#else
inline constexpr int width = 4;
inline constexpr int micro_rows = 4;
inline constexpr int micro_vectors = 2;
#endif

/// A vector of `width` floats, at any address that a float may have.
using Vector = float __attribute__((vector_size(4 * width), aligned(4), may_alias));

constexpr std::int64_t padded(std::int64_t n) {
  return (n + width - 1) / width * width;
}

/// The left operand: element (i, k) at data[i * row_stride + k * k_stride], so that it may be a transpose.
struct Left {
  const float* data;
  std::int64_t row_stride;
  std::int64_t k_stride;
};

namespace detail {

// It is inlined by force, so that strides that a caller knows are constants: this is worth a tenth of
// attention's time.
template <int Rows, int Vectors>
[[gnu::always_inline]] inline void micro(std::int64_t depth, Left a, const float* b, std::int64_t ldb,
                                         float* c, std::int64_t ldc, WriteMode mode) {
  Vector sum[Rows][Vectors] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector right[Vectors];
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) right[j] = *reinterpret_cast<const Vector*>(b + k * ldb + j * width);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const float left = a.data[i * a.row_stride + k * a.k_stride];
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) sum[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) {
      auto* out = reinterpret_cast<Vector*>(c + i * ldc + j * width);
      *out = mode == WriteMode::add ? *out + sum[i][j] : sum[i][j];
    }
}

template <int Vectors>
[[gnu::always_inline]] inline void column(std::int64_t m, std::int64_t depth, Left a, const float* b,
                                          std::int64_t ldb, float* c, std::int64_t ldc, WriteMode mode) {
  std::int64_t i = 0;
  const auto from = [&](std::int64_t row) {
    return Left{a.data + row * a.row_stride, a.row_stride, a.k_stride};
  };
  for (; i + micro_rows <= m; i += micro_rows)
    micro<micro_rows, Vectors>(depth, from(i), b, ldb, c + i * ldc, ldc, mode);
  for (; i + 2 <= m; i += 2) micro<2, Vectors>(depth, from(i), b, ldb, c + i * ldc, ldc, mode);
  if (i < m) micro<1, Vectors>(depth, from(i), b, ldb, c + i * ldc, ldc, mode);
}

}  // namespace detail

/// c [m, n] = a [m, depth] b [depth, n], or += it. b and c are row-major; n is a multiple of `width`. A sum
/// is made in the order of k, whatever the sizes.
[[gnu::always_inline]] inline void multiply(std::int64_t m, std::int64_t n, std::int64_t depth, Left a,
                                            const float* b, std::int64_t ldb, float* c, std::int64_t ldc,
                                            WriteMode mode) {
  constexpr int block = micro_vectors * width;
  std::int64_t j = 0;
  for (; j + block <= n; j += block) detail::column<micro_vectors>(m, depth, a, b + j, ldb, c + j, ldc, mode);
  if constexpr (micro_vectors > 2)
    for (; j + 2 * width <= n; j += 2 * width) detail::column<2>(m, depth, a, b + j, ldb, c + j, ldc, mode);
  for (; j < n; j += width) detail::column<1>(m, depth, a, b + j, ldb, c + j, ldc, mode);
}

}  // namespace weft::kernels::tile
