// Internal, host only: cuts a product's result c [m, n] into items, and writes its blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/bf16_engine/stored.hpp"
#include "kernels/bf16_engine/tiles.hpp"
#include "kernels/matmul_spec.hpp"

namespace weft::kernels::bf16_engine {

/// Turns the sizes into those of B' A' where that is the faster way to A B, and returns whether it did; c is
/// then written transposed. Both operands are packed there. Transposing is the dearer way to pack, so it
/// falls to the operand with fewer tiles.
inline bool swap_operands(MatmulSizes& s) {
  if (!s.a_transposed || s.b_transposed || s.m <= s.n) return false;
  std::swap(s.m, s.n);
  return true;
}

/// The blocks of 32 rows and panels of 32 columns that an item makes.
struct Region {
  std::int64_t row, panel;    ///< the first of them
  std::int64_t rows, panels;  ///< how many they are
};

/// Cuts c into items.
struct Grid {
  std::int64_t rows, panels;  ///< the most that an item has

  std::int64_t items(const MatmulSizes& s) const {
    return ceil_div(blocks_of(s.m), rows) * ceil_div(blocks_of(s.n), panels);
  }
  Region region(const MatmulSizes& s, std::int64_t item) const {
    const std::int64_t across = ceil_div(blocks_of(s.n), panels);
    const std::int64_t row = item / across * rows, panel = item % across * panels;
    return {row, panel, std::min(rows, blocks_of(s.m) - row), std::min(panels, blocks_of(s.n) - panel)};
  }
};

/// Writes the sums of a block to its place in c. `target` is all of c, [n, m] when it is transposed.
inline void write_result(const MatmulSizes& s, std::int64_t row, std::int64_t panel, const float* sums,
                         Target target, bool transposed) {
  const int rows = there(s.m - row * side, side), columns = there(s.n - panel * side, side);
  const std::int64_t at = side * (transposed ? panel * target.ld + row : row * target.ld + panel);
  target.c = static_cast<std::byte*>(target.c) + at * static_cast<std::int64_t>(size_of(target.type));
  if (!transposed) return write_block(sums, rows, columns, target);
  alignas(64) float turned[block_size];
  transpose_block(sums, turned);
  write_block(turned, columns, rows, target);
}

}  // namespace weft::kernels::bf16_engine
