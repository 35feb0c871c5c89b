#include "kernels/elementwise.hpp"

#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"

namespace weft::kernels {

namespace {

template <class T>
struct Add {
  const T* a;
  const T* b;
  T* out;
  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t begin, std::int64_t count) const {
    lanes.each_value(
        count, [](std::int64_t, float& sum, float x, float y) { sum = x + y; }, Write<T>{out + begin},
        Read<T>{a + begin}, Read<T>{b + begin});
  }
};

template <class From, class To>
struct Cast {
  const From* in;
  To* out;
  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t begin, std::int64_t count) const {
    lanes.each_value(
        count, [](std::int64_t, float& to, float x) { to = x; }, Write<To>{out + begin},
        Read<From>{in + begin});
  }
};

}  // namespace

void add(Space& space, std::int64_t n, DType t, const void* a, const void* b, void* out) {
  with_float_type("add", t, [&](auto type) {
    using T = decltype(type);
    for_each_stretch(space, "weft::add::forward", n,
                     Add<T>{static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(out)});
  });
}

void cast(Space& space, std::int64_t n, DType from, const void* in, DType to, void* out) {
  with_float_type("cast", from, [&](auto from_type) {
    using From = decltype(from_type);
    with_float_type("cast", to, [&](auto to_type) {
      using To = decltype(to_type);
      for_each_stretch(space, "weft::cast::forward", n,
                       Cast<From, To>{static_cast<const From*>(in), static_cast<To*>(out)});
    });
  });
}

}  // namespace weft::kernels
