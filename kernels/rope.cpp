#include "kernels/rope.hpp"

#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"

namespace weft::kernels {

namespace {

/// Rotates the heads of one token by the angles of its position or, with sign -1, by the opposite ones.
template <class Lanes, class T>
KOKKOS_INLINE_FUNCTION void turn(const Lanes& lanes, std::int64_t heads, std::int64_t head_dim,
                                 const float* angles, float sign, const T* x, T* out) {
  if constexpr (!runs_on_host)
    if (takes_packets(head_dim, Read<T>{x}, Write<T>{out}, Read<float>{angles})) {
      lanes.each_packet(heads * head_dim, [&](std::int64_t begin) {
        float in[packet], angle[packet], turned[packet];
        load_packet(x + begin, in);
        load_packet(angles + begin % head_dim, angle);
        for (int i = 0; i < packet; i += 2) {
          const float sine = sign * angle[i + 1];
          turned[i] = in[i] * angle[i] - in[i + 1] * sine;
          turned[i + 1] = in[i] * sine + in[i + 1] * angle[i];
        }
        store_packet(out + begin, turned);
      });
      return;
    }
  for (std::int64_t head = 0; head < heads; ++head) {
    const T* from = x + head * head_dim;
    T* to = out + head * head_dim;
    lanes.each(head_dim / 2, [=](std::int64_t i) {
      const float a = to_float(from[2 * i]);
      const float b = to_float(from[2 * i + 1]);
      const float cosine = angles[2 * i];
      const float sine = sign * angles[2 * i + 1];
      to[2 * i] = from_float<T>(a * cosine - b * sine);
      to[2 * i + 1] = from_float<T>(a * sine + b * cosine);
    });
  }
}

template <class T>
struct Rotate {
  RopeShape shape;
  const T* x;
  const std::int32_t* positions;
  const float* table;
  T* out;
  float sign;  ///< the sign of the angle

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const float* angles = table + positions[row] * shape.head_dim;
    const std::int64_t at = row * shape.heads * shape.head_dim;
    turn(lanes, shape.heads, shape.head_dim, angles, sign, x + at, out + at);
  }
};

template <class T>
struct Split {
  QkvShape shape;
  const T* qkv;
  const std::int32_t* positions;
  const float* table;
  T* q;
  T* k;
  T* v;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const std::int64_t d = shape.head_dim, queries = shape.heads * d, keys = shape.kv_heads * d;
    const float* angles = table + positions[row] * d;
    const T* from = qkv + row * (queries + 2 * keys);
    turn(lanes, shape.heads, d, angles, 1.0f, from, q + row * queries);
    turn(lanes, shape.kv_heads, d, angles, 1.0f, from + queries, k + row * keys);
    T* values = v + row * keys;
    lanes.each_value(
        keys, [](std::int64_t, float& to, float value) { to = value; }, Write<T>{values},
        Read<T>{from + queries + keys});
  }
};

template <class T>
struct Join {
  QkvShape shape;
  const T* dq;
  const T* dk;
  const T* dv;
  const std::int32_t* positions;
  const float* table;
  T* dqkv;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const std::int64_t d = shape.head_dim, queries = shape.heads * d, keys = shape.kv_heads * d;
    const float* angles = table + positions[row] * d;
    T* to = dqkv + row * (queries + 2 * keys);
    turn(lanes, shape.heads, d, angles, -1.0f, dq + row * queries, to);
    turn(lanes, shape.kv_heads, d, angles, -1.0f, dk + row * keys, to + queries);
    const T* values = dv + row * keys;
    lanes.each_value(
        keys, [](std::int64_t, float& out, float value) { out = value; }, Write<T>{to + queries + keys},
        Read<T>{values});
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

void rope_split(Space& space, QkvShape shape, DType t, const void* qkv, const std::int32_t* positions,
                const float* table, void* q, void* k, void* v) {
  with_float_type("rope_split", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::rope::split", shape.rows,
                 Split<T>{shape, static_cast<const T*>(qkv), positions, table, static_cast<T*>(q),
                          static_cast<T*>(k), static_cast<T*>(v)});
  });
}

void rope_join(Space& space, QkvShape shape, DType t, const void* dq, const void* dk, const void* dv,
               const std::int32_t* positions, const float* table, void* dqkv) {
  with_float_type("rope_join", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::rope::join", shape.rows,
                 Join<T>{shape, static_cast<const T*>(dq), static_cast<const T*>(dk),
                         static_cast<const T*>(dv), positions, table, static_cast<T*>(dqkv)});
  });
}

}  // namespace weft::kernels
