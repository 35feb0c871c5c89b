// Internal, host only: products of bf16 blocks with fp32 sums, by AMX tiles or AVX-512's dot products, and
// the packed layouts that both read. An element's sum is that of k in order, whoever computes it.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"

namespace weft::kernels::bf16_engine {

enum class Kind { none, dot_products, tiles };
/// The best that this processor has and that ONEDNN_MAX_CPU_ISA, which limits all matmuls, allows.
Kind kind();
/// Whether operands of this type are the engine's: bf16, where there is one.
inline bool serves(DType t) {
  return t == DType::bf16 && kind() != Kind::none;
}

/// Whether f32 operands are multiplied in pieces here: by tiles, as dot products take longer than f32
/// arithmetic.
inline bool splits(F32Products products) {
  return products == F32Products::split && kind() == Kind::tiles;
}

/// A thread that multiplies holds one meanwhile: the tiles' shape is set, and their state is given back.
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

using Bits = std::uint16_t;  ///< of a bf16

inline constexpr int half = 16;                  ///< rows and columns of a tile
inline constexpr int side = 2 * half;            ///< rows and columns of a block, and k of a step
inline constexpr int tile_size = half * side;    ///< elements of a packed tile
inline constexpr int step_size = 2 * tile_size;  ///< elements of a panel's step: two tiles
inline constexpr int block_size = side * side;   ///< sums of a block: fp32 [32][32], 64-byte aligned

constexpr std::int64_t blocks_of(std::int64_t n) {
  return (n + side - 1) / side;
}

// Packed operands begin at 64 bytes; what is missing of a tile is zero.
//   left [m, k]:  strips of 16 rows; strip, step of 32 k, row, k
//   right [k, n]: panels of 32 columns; panel, step of 32 k, half of the columns, pair of k, column, k of the
//   pair

/// What a packed tile is made of: up to 16 of m or n by 32 of k, as it is stored.
struct Source {
  const Bits* data;
  std::int64_t ld;    ///< elements from row to row
  int rows, columns;  ///< that are there; nothing is read behind them
};
void left_from_rows(const Source& s, Bits* tile);      ///< of [m, k]
void left_from_columns(const Source& s, Bits* tile);   ///< of [k, m]
void right_from_rows(const Source& s, Bits* tile);     ///< of [n, k]
void right_from_columns(const Source& s, Bits* tile);  ///< of [k, n]

// An fp32 value from 2^-103 on is the sum of `pieces` of bf16, each the rounding of what those before it
// leave. A packed tile then is one of each piece, the first first.
inline constexpr int pieces = 3;

/// As Source, of fp32.
struct WideSource {
  const float* data;
  std::int64_t ld;
  int rows, columns;
};
void left_from_rows(const WideSource& s, Bits* tiles);
void left_from_columns(const WideSource& s, Bits* tiles);
/// Half a panel's step: its tiles are step_size apart, as those of the other half stand between.
void right_from_rows(const WideSource& s, Bits* tiles);
void right_from_columns(const WideSource& s, Bits* tiles);

/// 32 rows of the left operand from a row and a step on, as they stand or packed.
struct Left {
  const Bits* data;
  std::int64_t row, strip, step;  ///< elements from one to the next; a strip is 16 rows
};
constexpr Left packed_left(const Bits* data, std::int64_t steps) {
  return {data, side, steps * tile_size, tile_size};
}

/// What a product by AMX tiles fetches into the second cache meanwhile: lines of 64 bytes, of which each row
/// of the left block `block` counts 16, a slab of as many steps. `lines` at each of the product's steps, a
/// divisor of 16, from the line `first` on.
struct Ahead {
  Left block{};
  std::int64_t first = 0, lines = 0;
};

/// steps >= 1. sums [32, 32] = left [32, 32 steps] right [32 steps, 32], or += it: of the first `rows` rows,
/// at least.
void multiply(const Left& left, const Bits* right, std::int64_t steps, std::int64_t rows, float* sums,
              bool add, const Ahead& ahead = {});

/// The same of all 32 rows and `panels` >= 1 panels of the right operand, `panel` elements from one to the
/// next, faster where steps are few: a block of sums each.
void multiply_panels(const Left& left, const Bits* right, std::int64_t panel, std::int64_t steps,
                     std::int64_t panels, float* sums, bool add);

/// sums = left right of packed operands in pieces, by tiles alone: the six products of pieces that count, of
/// nine. right's step is `pieces` of step_size.
void multiply_pieces(const Left& left, const Bits* right, std::int64_t steps, std::int64_t rows, float* sums);

/// Fetches rows of `columns` elements, `ld` from one to the next, into the second cache.
void fetch_rows(const Bits* x, std::int64_t ld, int rows, std::int64_t columns);

/// Where a block's sums go: rounded once, or added in fp32 to what is there and then rounded.
struct Target {
  void* c;
  std::int64_t ld;  ///< elements
  DType type;       ///< f32 or bf16
  bool add;
};
void write_block(const float* sums, int rows, int columns, const Target& target);
/// to [column][row] = from [row][column].
void transpose_block(const float* from, float* to);

}  // namespace weft::kernels::bf16_engine
