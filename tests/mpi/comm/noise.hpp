// Makes data in which another order, place or rank would show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/dtype.hpp"

namespace weft::test {

/// Elements of a call: none, some, about the 256 that shards are made of, and many that nothing divides.
inline constexpr std::int64_t counts[] = {0, 1, 3, 255, 257, 20011};

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

inline std::uint64_t noise(int rank, std::int64_t i, int salt = 0) {
  return mix(static_cast<std::uint64_t>(i) * 4099 + static_cast<std::uint64_t>(rank) * 31 +
             static_cast<std::uint64_t>(salt));
}

/// A float of mixed sign and magnitude, so that another order of additions gives other bits.
inline float real(int rank, std::int64_t i, int salt = 0) {
  const std::uint64_t n = noise(rank, i, salt);
  const float x = static_cast<float>(static_cast<std::int64_t>(n >> 32) - (1ll << 31)) * 0x1p-31f;
  return x * static_cast<float>(1 << (n % 12));
}

/// Rounds to an element type of sums.
template <class T>
T convert(float x) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(x);
  } else {
    return x;
  }
}

inline std::vector<std::byte> noisy_bytes(int rank, std::size_t bytes) {
  std::vector<std::byte> v(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    v[i] = static_cast<std::byte>(noise(rank, static_cast<std::int64_t>(i)));
  return v;
}

}  // namespace weft::test
