// Internal: how loops over elements read and write arrays. On the host an element at a time, in loops that
// the compiler vectorises; on the device a thread takes a packet of neighbouring elements by accesses of 16
// bytes, because accesses of one element of two bytes leave half of the memory's bandwidth unused. A packet
// is eight elements, or sixteen where an array has elements of one byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/kokkos_space.hpp"

namespace weft::kernels {

inline constexpr int packet = 8;  ///< elements, where none has one byte

/// The elements of a packet of these operands (Read, Write, Update).
template <class... Operands>
inline constexpr int packet_of = std::min({sizeof(*Operands::data)...}) == 1 ? 16 : packet;

namespace detail {

template <class T>
struct alignas(16) Sixteen {
  static constexpr int count = 16 / sizeof(T);
  T values[count];
};

/// Rounds to the type of an array's elements.
template <class T>
KOKKOS_INLINE_FUNCTION T stored(float x) {
  if constexpr (sizeof(T) == 1)
    return to_float8<T>(x);
  else
    return from_float<T>(x);
}

template <class T>
KOKKOS_INLINE_FUNCTION bool is_aligned(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

}  // namespace detail

/// Loads n elements from an address that is a multiple of 16.
template <class T, int n>
KOKKOS_INLINE_FUNCTION void load_packet(const T* from, float (&x)[n]) {
  using Part = detail::Sixteen<T>;
  static_assert(n % Part::count == 0);
  for (int p = 0; p < n / Part::count; ++p) {
    const Part part = reinterpret_cast<const Part*>(from)[p];
    for (int i = 0; i < Part::count; ++i) x[p * Part::count + i] = to_float(part.values[i]);
  }
}

/// Stores n elements to an address that is a multiple of 16.
template <class T, int n>
KOKKOS_INLINE_FUNCTION void store_packet(T* to, const float (&x)[n]) {
  using Part = detail::Sixteen<T>;
  static_assert(n % Part::count == 0);
  for (int p = 0; p < n / Part::count; ++p) {
    Part part;
    for (int i = 0; i < Part::count; ++i) part.values[i] = detail::stored<T>(x[p * Part::count + i]);
    reinterpret_cast<Part*>(to)[p] = part;
  }
}

/// Copies eight elements between addresses that are multiples of 16. A float in between could change the bits
/// of a NaN.
template <class T>
KOKKOS_INLINE_FUNCTION void copy_packet(const T* from, T* to) {
  using Part = detail::Sixteen<T>;
  for (int p = 0; p < packet / Part::count; ++p)
    reinterpret_cast<Part*>(to)[p] = reinterpret_cast<const Part*>(from)[p];
}

/// Arrays that a loop reads, writes, or reads and writes, an element of each at a time. They may be the same
/// array, because all that a thread reads in one turn is read before it writes.
template <class T>
struct Read {
  const T* data;
  KOKKOS_FUNCTION float load(std::int64_t i) const { return to_float(data[i]); }
  KOKKOS_FUNCTION void store(std::int64_t, float) const {}
  template <int n>
  KOKKOS_FUNCTION void load(std::int64_t begin, float (&x)[n]) const {
    load_packet(data + begin, x);
  }
  template <int n>
  KOKKOS_FUNCTION void store(std::int64_t, const float (&)[n]) const {}
};
template <class T>
struct Write {
  T* data;
  KOKKOS_FUNCTION float load(std::int64_t) const { return 0; }
  KOKKOS_FUNCTION void store(std::int64_t i, float x) const { data[i] = detail::stored<T>(x); }
  template <int n>
  KOKKOS_FUNCTION void load(std::int64_t, float (&)[n]) const {}
  template <int n>
  KOKKOS_FUNCTION void store(std::int64_t begin, const float (&x)[n]) const {
    store_packet(data + begin, x);
  }
};
template <class T>
struct Update {
  T* data;
  KOKKOS_FUNCTION float load(std::int64_t i) const { return to_float(data[i]); }
  KOKKOS_FUNCTION void store(std::int64_t i, float x) const { data[i] = detail::stored<T>(x); }
  template <int n>
  KOKKOS_FUNCTION void load(std::int64_t begin, float (&x)[n]) const {
    load_packet(data + begin, x);
  }
  template <int n>
  KOKKOS_FUNCTION void store(std::int64_t begin, const float (&x)[n]) const {
    store_packet(data + begin, x);
  }
};

/// Calls f(x...) with element i of each operand, and stores what f left in those that are written.
template <class F>
KOKKOS_INLINE_FUNCTION void on_element(std::int64_t, const F& f) {
  f();
}
template <class F, class First, class... Rest>
KOKKOS_INLINE_FUNCTION void on_element(std::int64_t i, const F& f, const First& first, const Rest&... rest) {
  float x = first.load(i);
  on_element(
      i, [&](auto&... more) { f(x, more...); }, rest...);
  first.store(i, x);
}

/// Calls f(j, x...) for the elements begin + j of a packet of n.
template <int n, class F>
KOKKOS_INLINE_FUNCTION void on_packet(std::int64_t, const F& f) {
  for (int j = 0; j < n; ++j) f(j);
}
template <int n, class F, class First, class... Rest>
KOKKOS_INLINE_FUNCTION void on_packet(std::int64_t begin, const F& f, const First& first,
                                      const Rest&... rest) {
  float x[n];
  first.load(begin, x);
  on_packet<n>(
      begin, [&](int j, auto&... more) { f(j, x[j], more...); }, rest...);
  first.store(begin, x);
}

/// Whether n elements of all operands can be loaded and stored by packets.
template <class... Operands>
KOKKOS_INLINE_FUNCTION bool takes_packets(std::int64_t n, const Operands&... operands) {
  return n % packet_of<Operands...> == 0 && (detail::is_aligned(operands.data) && ...);
}

}  // namespace weft::kernels
