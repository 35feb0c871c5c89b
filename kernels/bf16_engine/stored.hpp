// Internal, host only: an operand of a product as it lies in memory, and how it is cut into tiles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/bf16_engine/tiles.hpp"

namespace weft::kernels::bf16_engine {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

constexpr int there(std::int64_t n, int most) {
  return static_cast<int>(std::clamp<std::int64_t>(n, 0, most));
}

/// An operand of `lines` rows (left) or columns (right). It is bf16, or fp32 that is packed in pieces.
template <class T>
struct Stored {
  using Tile = std::conditional_t<std::is_same_v<T, float>, WideSource, Source>;

  const T* data;
  std::int64_t lines, k;
  bool along_k;  ///< whether it is stored as [lines, k]; else as [k, lines]

  std::int64_t steps() const { return blocks_of(k); }
  /// The tile of 16 lines and 32 k at this place.
  Tile tile(std::int64_t strip, std::int64_t step) const {
    const int across = there(lines - strip * half, half), deep = there(k - step * side, side);
    if (along_k) return {data + strip * half * k + step * side, k, across, deep};
    return {data + step * side * lines + strip * half, lines, across > 0 ? deep : 0, across};
  }
  void pack_left(std::int64_t strip, std::int64_t step, Bits* to) const {
    along_k ? left_from_rows(tile(strip, step), to) : left_from_columns(tile(strip, step), to);
  }
  void pack_right(std::int64_t strip, std::int64_t step, Bits* to) const {
    along_k ? right_from_rows(tile(strip, step), to) : right_from_columns(tile(strip, step), to);
  }
  /// Calls f(strip or panel, step) for all strips or panels and all steps, in the order in which memory is
  /// read along its rows.
  template <class F>
  void walk(std::int64_t across, std::int64_t steps, const F& f) const {
    if (along_k) {
      for (std::int64_t i = 0; i < across; ++i)
        for (std::int64_t s = 0; s < steps; ++s) f(i, s);
    } else {
      for (std::int64_t s = 0; s < steps; ++s)
        for (std::int64_t i = 0; i < across; ++i) f(i, s);
    }
  }
};

}  // namespace weft::kernels::bf16_engine
