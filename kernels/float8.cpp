#include "kernels/float8.hpp"

#include <stdexcept>

#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"
#include "kernels/memory.hpp"

namespace weft::kernels {

namespace {

/// The smallest power of two s with amax <= largest<T> * s. It is normal, and so is its reciprocal.
template <class T>
KOKKOS_INLINE_FUNCTION float scale_of(float amax) {
  if (amax == 0) return 1;
  if (!(amax <= 0x1.fffffep127f)) return Kokkos::Experimental::quiet_NaN_v<float>;
  const auto bits = bit_cast<std::uint32_t>(amax / largest<T>);
  std::uint32_t exponent = (bits >> 23) + ((bits & 0x7fffffu) == 0 ? 0 : 1);
  exponent = exponent < 2 ? 2 : exponent;  // the scale 2^-125
  return bit_cast<float>(exponent << 23);
}

/// The magnitude of a number; that of a NaN is infinity.
KOKKOS_INLINE_FUNCTION float magnitude_of(float x) {
  const float magnitude = x < 0 ? -x : x;
  return magnitude == magnitude ? magnitude : Kokkos::Experimental::infinity_v<float>;
}

template <class T>
struct Largest {
  const T* vector;
  float* largest;
  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t begin, std::int64_t count) const {
    const float own = lanes.max_values(
        count, [](float x) { return magnitude_of(x); }, Read<T>{vector + begin});
    lanes.once([&] { Kokkos::atomic_max(largest, own); });
  }
};

struct Scales {
  const float* largest;
  float* scales;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { scales[i] = scale_of<e4m3>(largest[i]); }
};

/// Writes `count` numbers over their scale.
template <class Lanes, class T, class F>
KOKKOS_INLINE_FUNCTION void quantize(const Lanes& lanes, std::int64_t count, const T* from, float scale,
                                     F* to) {
  const float inverse = 1.0f / scale;
  lanes.each_value(
      count, [=](std::int64_t, float& out, float x) { out = x * inverse; }, Write<F>{to}, Read<T>{from});
}

struct QuantizeRun {
  const float* vector;
  const float* scale;
  e4m3* out;
  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t begin, std::int64_t count) const {
    quantize(lanes, count, vector + begin, *scale, out + begin);
  }
};

template <class T, class F>
struct QuantizeRows {
  std::int64_t dim;
  const T* x;
  F* out;
  float* scales;
  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const T* from = x + row * dim;
    lanes.fetch_next(from, dim);
    const float amax = lanes.max_values(
        dim, [](float value) { return magnitude_of(value); }, Read<T>{from});
    const float scale = scale_of<F>(amax);
    quantize(lanes, dim, from, scale, out + row * dim);
    lanes.once([&] { scales[row] = scale; });
  }
};

/// Makes a scale of the largest magnitude, in its place.
template <class F>
struct ScaleOf {
  float* scale;
  KOKKOS_FUNCTION void operator()(std::int64_t /*i*/) const { *scale = scale_of<F>(*scale); }
};

/// The first row's scale is that of all; it is there already.
template <class T, class F>
struct QuantizeTensor {
  std::int64_t dim;
  const T* x;
  F* out;
  float* scales;
  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const float scale = *scales;
    lanes.once([&] {
      if (row > 0) scales[row] = scale;
    });
    quantize(lanes, dim, x + row * dim, scale, out + row * dim);
  }
};

template <class F>
struct DequantizeRows {
  std::int64_t dim, stride;
  const F* x;
  const float* scales;
  bf16* out;
  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const float scale = scales[row * stride];
    lanes.each_value(
        dim, [=](std::int64_t, float& to, float from) { to = from * scale; }, Write<bf16>{out + row * dim},
        Read<F>{x + row * dim});
  }
};

/// Transposes a square of eight by eight bytes, read and written by rows of eight.
struct TransposeBytes {
  static constexpr int side = 8;
  struct alignas(side) Row {
    std::uint8_t bytes[side];
  };
  std::int64_t rows, columns;
  const std::uint8_t* x;
  std::uint8_t* out;
  KOKKOS_FUNCTION void operator()(std::int64_t square) const {
    const std::int64_t across = columns / side, row = square / across * side, column = square % across * side;
    Row from[side], to[side];
    for (int i = 0; i < side; ++i) from[i] = *reinterpret_cast<const Row*>(x + (row + i) * columns + column);
    for (int i = 0; i < side; ++i)
      for (int j = 0; j < side; ++j) to[j].bytes[i] = from[i].bytes[j];
    for (int j = 0; j < side; ++j) *reinterpret_cast<Row*>(out + (column + j) * rows + row) = to[j];
  }
};

struct Repeat {
  const float* value;
  float* out;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { out[i] = *value; }
};

/// Calls f(e4m3{}) or f(e5m2{}).
template <class F>
void with_float8_type(const char* op, DType t, F&& f) {
  if (t == DType::e4m3)
    f(e4m3{});
  else if (t == DType::e5m2)
    f(e5m2{});
  else
    fail_dtype(op, t);
}

}  // namespace

void amax(Space& space, std::span<const ScaledRun> runs, const float* vector, float* largest) {
  for (const ScaledRun& run : runs)
    for_each_stretch(space, "weft::amax::stretches", run.count,
                     Largest<float>{vector + run.begin, largest + run.slot});
}

void float8_scales(Space& space, std::int64_t n, const float* largest, float* scales) {
  for_each_element(space, "weft::float8_scales::elements", n, Scales{largest, scales});
}

void quantize_runs(Space& space, std::span<const ScaledRun> runs, const float* vector, const float* scales,
                   void* out) {
  for (const ScaledRun& run : runs)
    for_each_stretch(space, "weft::quantize_unit::stretches", run.count,
                     QuantizeRun{vector + run.begin, scales + run.slot, static_cast<e4m3*>(out) + run.begin});
}

void quantize_rows(Space& space, std::int64_t rows, std::int64_t dim, DType t, const void* x, DType format,
                   void* out, float* scales) {
  with_float_type("quantize", t, [&](auto type) {
    using T = decltype(type);
    with_float8_type("quantize", format, [&](auto narrow) {
      using F = decltype(narrow);
      for_each_row(space, "weft::quantize::rows", rows,
                   QuantizeRows<T, F>{dim, static_cast<const T*>(x), static_cast<F*>(out), scales});
    });
  });
}

void quantize_tensor(Space& space, std::int64_t rows, std::int64_t dim, DType t, const void* x, DType format,
                     void* out, float* scales) {
  if (rows == 0) return;
  fill_zero(space, scales, sizeof(float));
  with_float_type("quantize", t, [&](auto type) {
    using T = decltype(type);
    const auto* from = static_cast<const T*>(x);
    for_each_stretch(space, "weft::quantize::largest", rows * dim, Largest<T>{from, scales});
    with_float8_type("quantize", format, [&](auto narrow) {
      using F = decltype(narrow);
      for_each_element(space, "weft::quantize::scale", 1, ScaleOf<F>{scales});
      for_each_row(space, "weft::quantize::tensor", rows,
                   QuantizeTensor<T, F>{dim, from, static_cast<F*>(out), scales});
    });
  });
}

void dequantize_rows(Space& space, std::int64_t rows, std::int64_t dim, DType format, const void* x,
                     const float* scales, std::int64_t stride, void* out) {
  with_float8_type("dequantize", format, [&](auto narrow) {
    using F = decltype(narrow);
    for_each_row(space, "weft::dequantize::rows", rows,
                 DequantizeRows<F>{dim, stride, static_cast<const F*>(x), scales, static_cast<bf16*>(out)});
  });
}

void transpose_bytes(Space& space, std::int64_t rows, std::int64_t columns, const void* x, void* out) {
  constexpr std::int64_t side = TransposeBytes::side;
  if (rows % side != 0 || columns % side != 0)
    throw std::logic_error("transpose_bytes: no multiples of eight");
  for_each_element(
      space, "weft::transpose_bytes::squares", rows / side * (columns / side),
      TransposeBytes{rows, columns, static_cast<const std::uint8_t*>(x), static_cast<std::uint8_t*>(out)});
}

void repeat(Space& space, std::int64_t n, const float* value, float* out) {
  for_each_element(space, "weft::repeat::elements", n, Repeat{value, out});
}

}  // namespace weft::kernels
