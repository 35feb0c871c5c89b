#include "kernels/rope.hpp"

#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"

namespace weft::kernels {

namespace {

template <class T>
struct Rotate {
  RopeShape shape;
  const T* x;
  const std::int32_t* positions;
  const float* table;
  T* out;
  float sign;  ///< of the angle

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const float* angles = table + positions[row] * shape.head_dim;
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const std::int64_t offset = (row * shape.heads + head) * shape.head_dim;
      const T* from = x + offset;
      T* to = out + offset;
      lanes.each(shape.head_dim / 2, [&](std::int64_t i) {
        const float a = to_float(from[2 * i]);
        const float b = to_float(from[2 * i + 1]);
        const float cosine = angles[2 * i];
        const float sine = sign * angles[2 * i + 1];
        to[2 * i] = from_float<T>(a * cosine - b * sine);
        to[2 * i + 1] = from_float<T>(a * sine + b * cosine);
      });
    }
  }
};

}  // namespace

void rope(Space& space, RopeShape shape, DType t, const void* x, const std::int32_t* positions,
          const float* table, void* out, RopeDirection direction) {
  const float sign = direction == RopeDirection::forward ? 1.0f : -1.0f;
  with_float_type("rope", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, sign > 0 ? "weft::rope::forward" : "weft::rope::backward", shape.rows,
                 Rotate<T>{shape, static_cast<const T*>(x), positions, table, static_cast<T*>(out), sign});
  });
}

}  // namespace weft::kernels
