#include "kernels/swiglu.hpp"

#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"
#include "kernels/math.hpp"

namespace weft::kernels {

namespace {

KOKKOS_INLINE_FUNCTION float sigmoid(float x) {
  return 1.0f / (1.0f + exp_f32(-x));
}

template <class T>
struct Forward {
  const T* gate;
  const T* up;
  T* out;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const float g = to_float(gate[i]);
    out[i] = from_float<T>(g * sigmoid(g) * to_float(up[i]));
  }
};

template <class T>
struct Backward {
  const T* gate;
  const T* up;
  const T* dout;
  T* dgate;
  T* dup;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const float g = to_float(gate[i]);
    const float u = to_float(up[i]);
    const float d = to_float(dout[i]);
    const float s = sigmoid(g);
    dgate[i] = from_float<T>(d * u * s * (1.0f + g * (1.0f - s)));
    dup[i] = from_float<T>(d * g * s);
  }
};

}  // namespace

void swiglu(Space& space, std::int64_t n, DType t, const void* gate, const void* up, void* out) {
  with_float_type("swiglu", t, [&](auto type) {
    using T = decltype(type);
    for_each_element(
        space, "weft::swiglu::forward", n,
        Forward<T>{static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<T*>(out)});
  });
}

void swiglu_grad(Space& space, std::int64_t n, DType t, const void* gate, const void* up, const void* dout,
                 void* dgate, void* dup) {
  with_float_type("swiglu_grad", t, [&](auto type) {
    using T = decltype(type);
    for_each_element(space, "weft::swiglu::backward", n,
                     Backward<T>{static_cast<const T*>(gate), static_cast<const T*>(up),
                                 static_cast<const T*>(dout), static_cast<T*>(dgate), static_cast<T*>(dup)});
  });
}

}  // namespace weft::kernels
