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
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    out[i] = from_float<T>(to_float(a[i]) + to_float(b[i]));
  }
};

template <class From, class To>
struct Cast {
  const From* in;
  To* out;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { out[i] = from_float<To>(to_float(in[i])); }
};

}  // namespace

void add(Space& space, std::int64_t n, DType t, const void* a, const void* b, void* out) {
  with_float_type("add", t, [&](auto type) {
    using T = decltype(type);
    for_each_element(space, "weft::add::forward", n,
                     Add<T>{static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(out)});
  });
}

void cast(Space& space, std::int64_t n, DType from, const void* in, DType to, void* out) {
  with_float_type("cast", from, [&](auto from_type) {
    using From = decltype(from_type);
    with_float_type("cast", to, [&](auto to_type) {
      using To = decltype(to_type);
      for_each_element(space, "weft::cast::forward", n,
                       Cast<From, To>{static_cast<const From*>(in), static_cast<To*>(out)});
    });
  });
}

}  // namespace weft::kernels
