#include "kernels/swiglu.hpp"

#include <type_traits>

#include "kernels/bf16_engine/rows.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"
#include "kernels/math.hpp"

namespace weft::kernels {

namespace {

/// The logistic function. Its exponent is limited so that the power has a reciprocal: below -86 the result is
/// at most 4e-38.
KOKKOS_INLINE_FUNCTION float sigmoid(float x) {
  return reciprocal_f32(1.0f + exp_f32(x > -86.0f ? -x : 86.0f));
}

template <class T>
struct SwigluForward {
  SwigluShape shape;
  const T* gate;
  const T* up;
  T* out;
  bool by_engine;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const T* g_row = gate + row * shape.stride;
    const T* u_row = up + row * shape.stride;
    T* to = out + row * shape.dim;
    if constexpr (runs_on_host && std::is_same_v<T, bf16>)
      if (by_engine) return bf16_engine::swiglu_row(shape.dim, shape.stride, g_row, u_row, to);
    lanes.each_value(
        shape.dim, [](std::int64_t, float& out, float g, float u) { out = g * sigmoid(g) * u; }, Write<T>{to},
        Read<T>{g_row}, Read<T>{u_row});
  }
};

template <class T>
struct SwigluBackward {
  SwigluShape shape;
  const T* gate;
  const T* up;
  const T* dout;
  T* dgate;
  T* dup;
  bool by_engine;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const std::int64_t at = row * shape.stride;
    const T *g_row = gate + at, *u_row = up + at, *d_row = dout + row * shape.dim;
    T *dg_row = dgate + at, *du_row = dup + at;
    if constexpr (runs_on_host && std::is_same_v<T, bf16>)
      if (by_engine)
        return bf16_engine::swiglu_grad_row(shape.dim, shape.stride, g_row, u_row, d_row, dg_row, du_row);
    lanes.each_value(
        shape.dim,
        [](std::int64_t, float& dg, float& du, float g, float u, float d) {
          const float s = sigmoid(g);
          dg = d * u * s * (1.0f + g * (1.0f - s));
          du = d * g * s;
        },
        Write<T>{dg_row}, Write<T>{du_row}, Read<T>{g_row}, Read<T>{u_row}, Read<T>{d_row});
  }
};

}  // namespace

void swiglu(Space& space, SwigluShape shape, DType t, const void* gate, const void* up, void* out) {
  with_float_type("swiglu", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::swiglu::forward", shape.rows,
                 SwigluForward<T>{shape, static_cast<const T*>(gate), static_cast<const T*>(up),
                                  static_cast<T*>(out), bf16_engine::serves_rows(t)});
  });
}

void swiglu_grad(Space& space, SwigluShape shape, DType t, const void* gate, const void* up, const void* dout,
                 void* dgate, void* dup) {
  with_float_type("swiglu_grad", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::swiglu::backward", shape.rows,
                 SwigluBackward<T>{shape, static_cast<const T*>(gate), static_cast<const T*>(up),
                                   static_cast<const T*>(dout), static_cast<T*>(dgate), static_cast<T*>(dup),
                                   bf16_engine::serves_rows(t)});
  });
}

}  // namespace weft::kernels
