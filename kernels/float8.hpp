// Numbers of 8 bits over a scale (DType::e4m3 and DType::e5m2, base/dtype.hpp). All scales are powers of two:
// the smallest by which the largest magnitude of what is scaled fits into the format. So an element times its
// scale is a bf16 exactly, wherever that has the range.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// A run of elements of a vector that have one scale.
struct ScaledRun {
  std::int64_t begin;  ///< in the vector
  std::int64_t count;
  std::int64_t slot;  ///< the place of its scale
};

/// largest[slot] = max(largest[slot], |x|) over the elements of each run. A NaN counts as infinity.
void amax(Space& space, std::span<const ScaledRun> runs, const float* vector, float* largest);

/// Makes the scales of e4m3 from the largest magnitudes: 1 for 0, and NaN for infinity. They may be one
/// array.
void float8_scales(Space& space, std::int64_t n, const float* largest, float* scales);

/// out = vector / scale for the elements of each run, as e4m3; other elements are left alone.
void quantize_runs(Space& space, std::span<const ScaledRun> runs, const float* vector, const float* scales,
                   void* out);

/// Gives each row of x [rows, dim] (f32 or bf16) a scale, and writes its elements over it in `format`. A row
/// with a NaN or an infinity has the scale NaN.
void quantize_rows(Space& space, std::int64_t rows, std::int64_t dim, DType t, const void* x, DType format,
                   void* out, float* scales);

/// Gives all rows of x one scale, that of their largest magnitude, and writes it for each row. Otherwise it
/// does what quantize_rows does; a NaN or an infinity makes the scale NaN.
void quantize_tensor(Space& space, std::int64_t rows, std::int64_t dim, DType t, const void* x, DType format,
                     void* out, float* scales);

/// out = x * scale as bf16, for x [rows, dim] in `format`. Row r has scales[r * stride]; with stride 0 all
/// rows have one.
void dequantize_rows(Space& space, std::int64_t rows, std::int64_t dim, DType format, const void* x,
                     const float* scales, std::int64_t stride, void* out);

/// out [columns, rows] = the transpose of x [rows, columns], of bytes; both extents are multiples of eight.
void transpose_bytes(Space& space, std::int64_t rows, std::int64_t columns, const void* x, void* out);

/// Writes *value n times.
void repeat(Space& space, std::int64_t n, const float* value, float* out);

}  // namespace weft::kernels
