// Internal, host only: products of bf16 blocks with fp32 sums, by AMX tiles or AVX-512's dot products, and
// the packed layouts that both read. Both add up an element in the order of k.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"

namespace weft::kernels::bf16_engine {

enum class Kind { none, dot_products, tiles };
/// The best kind of engine that this processor has, and that ONEDNN_MAX_CPU_ISA, which limits all matmuls,
/// allows.
Kind kind();
/// Whether the engine takes operands of this type: bf16, where there is an engine.
inline bool serves(DType t) {
  return t == DType::bf16 && kind() != Kind::none;
}

/// Whether f32 operands are multiplied in pieces here. That is done by tiles only, because dot products would
/// take longer than f32 arithmetic.
inline bool splits(F32Products products) {
  return products == F32Products::split && kind() == Kind::tiles;
}

/// A thread holds one while it multiplies: it sets the tiles' shape, and gives their state back.
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

using Bits = std::uint16_t;  ///< the bits of a bf16

inline constexpr int half = 16;                  ///< rows and columns of a tile
inline constexpr int side = 2 * half;            ///< rows and columns of a block, and k of a step
inline constexpr int tile_size = half * side;    ///< elements of a packed tile
inline constexpr int step_size = 2 * tile_size;  ///< elements of a panel's step: two tiles
inline constexpr int block_size = side * side;   ///< sums of a block: fp32 [32][32], 64-byte aligned

constexpr std::int64_t blocks_of(std::int64_t n) {
  return (n + side - 1) / side;
}

// Packed operands begin at multiples of 64 bytes. Where a tile is not full, its other elements are zero. They
// are ordered by these, the slowest first:
// - left [m, k]: strip of 16 rows; step of 32 k; row; k
// - right [k, n]: panel of 32 columns; step of 32 k; half of the columns; pair of k; column; k of the pair

/// What a packed tile is made of: up to 16 of m or n by 32 of k, in the form in which it is stored.
struct Source {
  const Bits* data;
  std::int64_t ld;    ///< elements from row to row
  int rows, columns;  ///< how many there are; nothing is read behind them
};
void left_from_rows(const Source& s, Bits* tile);      ///< packs a tile from [m, k]
void left_from_columns(const Source& s, Bits* tile);   ///< packs a tile from [k, m]
void right_from_rows(const Source& s, Bits* tile);     ///< packs a tile from [n, k]
void right_from_columns(const Source& s, Bits* tile);  ///< packs a tile from [k, n]

// An fp32 value from 2^-103 on is the sum of `pieces` bf16 values, each the rounding of what those before it
// leave. A packed tile is then a tile of each piece, in this order.
inline constexpr int pieces = 3;

/// An fp32 Source, which is packed in pieces.
struct WideSource {
  const float* data;
  std::int64_t ld;
  int rows, columns;
};
void left_from_rows(const WideSource& s, Bits* tiles);
void left_from_columns(const WideSource& s, Bits* tiles);
/// Packs half of a panel's step. Its tiles are step_size apart, because those of the other half stand
/// between.
void right_from_rows(const WideSource& s, Bits* tiles);
void right_from_columns(const WideSource& s, Bits* tiles);

/// 32 rows of the left operand, from some row and step on, as they stand or packed.
struct Left {
  const Bits* data;
  std::int64_t row, strip, step;  ///< elements from one to the next, where a strip is 16 rows
};
constexpr Left packed_left(const Bits* data, std::int64_t steps) {
  return {data, side, steps * tile_size, tile_size};
}

/// What a product by AMX tiles fetches into the second-level cache meanwhile, in lines of 64 bytes. Each row
/// of the left block `block` counts 16 of them: a slab of as many steps. Each step of the product fetches
/// `lines` of them, a divisor of 16, and the first step begins with line `first`.
struct Ahead {
  Left block{};
  std::int64_t first = 0, lines = 0;
};

/// How much of a block's product is needed: k >= 1 of the sum, and of the sums the first rows and columns.
/// What is packed of k behind it is zero.
struct Extent {
  std::int64_t k, rows = side, columns = side;
};

/// sums [32, 32] = left [32, k] right [k, 32], or += it, for at least the extent's rows and columns.
void multiply(const Left& left, const Bits* right, const Extent& extent, float* sums, bool add,
              const Ahead& ahead = {});

/// Multiplies all 32 rows by `panels` >= 1 panels of the right operand, which are `panel` elements apart, to
/// a block of sums each. It is faster than multiply() where k is small.
void multiply_panels(const Left& left, const Bits* right, std::int64_t panel, std::int64_t k,
                     std::int64_t panels, float* sums, bool add);

/// sums = left right for packed operands in pieces, by tiles alone: of the nine products of pieces, the six
/// that count. A step of `right` has `pieces` times step_size elements.
void multiply_pieces(const Left& left, const Bits* right, std::int64_t steps, std::int64_t rows, float* sums);

/// Fetches rows of `columns` elements, which are `ld` apart, into the second-level cache.
void fetch_rows(const Bits* x, std::int64_t ld, int rows, std::int64_t columns);

/// Where a block's sums go. They are rounded once, or added in fp32 to what is there and then rounded.
struct Target {
  void* c;
  std::int64_t ld;  ///< elements from row to row
  DType type;       ///< f32 or bf16
  bool add;
};
void write_block(const float* sums, int rows, int columns, const Target& target);
/// to [column][row] = from [row][column].
void transpose_block(const float* from, float* to);

}  // namespace weft::kernels::bf16_engine
