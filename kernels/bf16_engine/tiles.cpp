#include "kernels/bf16_engine/tiles.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "kernels/bf16_engine/isa.hpp"

namespace weft::kernels::bf16_engine {
namespace {

/// Linux gives the tiles' state to processes that ask for it.
bool may_use_tiles() {
  constexpr int request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {half, half, half, half, half, half, half, half};
};

WEFT_AMX void configure() {
  static const TileConfig config;
  _tile_loadconfig(&config);
}
WEFT_AMX void release() {
  _tile_release();
}

using Words = __m512i[half];

/// 16 x 16 words of 32 bits.
WEFT_AVX512 inline void transpose(Words& r) {
  Words t;
#pragma GCC unroll 8
  for (int i = 0; i < half; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < half; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // Lane l of r[4 i + j] is column 4 l + j of the rows from 4 i.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i a = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x44);
    const __m512i b = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x44);
    const __m512i c = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xee);
    const __m512i d = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xee);
    t[j] = _mm512_shuffle_i32x4(a, b, 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(a, b, 0xdd);
    t[8 + j] = _mm512_shuffle_i32x4(c, d, 0x88);
    t[12 + j] = _mm512_shuffle_i32x4(c, d, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < half; ++i) r[i] = t[i];
}

/// 16 rows of 32.
WEFT_AVX512 inline void read_rows(const Source& s, Words& r) {
  const auto mask = first_bits(s.columns);
#pragma GCC unroll 16
  for (int i = 0; i < half; ++i)
    r[i] = i < s.rows ? _mm512_maskz_loadu_epi16(mask, s.data + i * s.ld) : _mm512_setzero_si512();
}

WEFT_AVX512 inline __m512i widened(const Source& s, int row, __mmask16 mask) {
  if (row >= s.rows) return _mm512_setzero_si512();
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, s.data + row * s.ld));
}

/// 32 rows of 16, one interleaved with the next.
WEFT_AVX512 inline void read_pairs(const Source& s, Words& r) {
  const auto mask = static_cast<__mmask16>(first_bits(std::min(s.columns, half)));
#pragma GCC unroll 16
  for (int i = 0; i < half; ++i)
    r[i] = _mm512_or_si512(widened(s, 2 * i, mask), _mm512_slli_epi32(widened(s, 2 * i + 1, mask), 16));
}

WEFT_AVX512 inline __m512i lane_numbers() {
  return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

/// x and y rounded to bf16, as the low and high halves of words; x and y become what that leaves of them.
WEFT_AVX512 inline __m512i take_piece(__m512& x, __m512& y) {
  const __m512i order = _mm512_add_epi32(_mm512_mullo_epi32(_mm512_set1_epi32(0x10001), lane_numbers()),
                                         _mm512_set1_epi32(half << 16));
  const __m512i words = _mm512_permutexvar_epi16(order, to_bits(x, y));
  x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)));
  y = _mm512_sub_ps(y, _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(~0xffff))));
  return words;
}

/// A row of each piece's tile: x and y are the first and second of its words.
WEFT_AVX512 inline void write_pieces(__m512 x, __m512 y, Bits* to, int piece) {
#pragma GCC unroll 3
  for (int p = 0; p < pieces; ++p) _mm512_store_si512(to + p * piece, take_piece(x, y));
}

/// Sixteen of a row; zero behind the last row.
WEFT_AVX512 inline __m512 read_floats(const WideSource& s, int row, int column, __mmask16 mask) {
  return row < s.rows ? _mm512_maskz_loadu_ps(mask, s.data + row * s.ld + column) : _mm512_setzero_ps();
}

/// Sixteen columns of up to 16 rows.
WEFT_AVX512 inline void read_floats(const WideSource& s, int column, Words& r) {
  const auto mask = static_cast<__mmask16>(first_bits(std::min(s.columns - column, half)));
#pragma GCC unroll 16
  for (int i = 0; i < half; ++i) r[i] = _mm512_castps_si512(read_floats(s, i, column, mask));
}

WEFT_AVX512 inline void write(const Words& r, Bits* to) {
#pragma GCC unroll 16
  for (int i = 0; i < half; ++i) _mm512_store_si512(to + i * side, r[i]);
}

/// The first line that a product's step fetches.
inline const Bits* line_ahead(const Ahead& a, std::int64_t step) {
  const std::int64_t from = a.first + step * a.lines, row = from / half;
  return a.block.data + from % half * a.block.step + row / half * a.block.strip + row % half * a.block.row;
}

// Tiles 0 to 3 are sums, 4 and 5 of the left operand, 6 and 7 of the right one; of 16 M rows.

template <int M>
WEFT_AMX inline void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (M == 2) {
    _tile_zero(2);
    _tile_zero(3);
  }
}

template <int M>
WEFT_AMX inline void store_sums(float* sums) {
  constexpr int line = side * sizeof(float);
  _tile_stored(0, sums, line);
  _tile_stored(1, sums + half, line);
  if constexpr (M == 2) {
    _tile_stored(2, sums + half * side, line);
    _tile_stored(3, sums + half * side + half, line);
  }
}

/// TILELOADDT1, for what is read once and must not push the rest out of the first cache, or TILELOADD.
enum class Reuse : std::uint8_t { none, some };
template <Reuse R>
WEFT_AMX inline void load_6(const Bits* b) {
  if constexpr (R == Reuse::none)
    _tile_stream_loadd(6, b, 64);
  else
    _tile_loadd(6, b, 64);
}
template <Reuse R>
WEFT_AMX inline void load_7(const Bits* b) {
  if constexpr (R == Reuse::none)
    _tile_stream_loadd(7, b, 64);
  else
    _tile_loadd(7, b, 64);
}

/// The left operand's rows are `row` bytes apart, its strips `strip` elements.
template <int M, Reuse R>
WEFT_AMX inline void load_operands(const Bits* a, std::size_t row, std::int64_t strip, const Bits* b) {
  _tile_loadd(4, a, row);
  load_6<R>(b);
  if constexpr (M == 2) _tile_loadd(5, a + strip, row);
  load_7<R>(b + tile_size);
}

/// Adds the products of two tiles by two.
template <int M>
WEFT_AMX inline void add_products() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  if constexpr (M == 2) {
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

// The same, and each tile is loaded with what follows as soon as it is free (docs/kernels.md).

template <int M>
WEFT_AMX inline void add_products_then_left(const Bits* a, std::size_t row, std::int64_t strip) {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(4, a, row);
  if constexpr (M == 2) {
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    _tile_loadd(5, a + strip, row);
  }
}

template <int M>
WEFT_AMX inline void add_products_then_right(const Bits* b) {
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (M == 2) _tile_dpbf16ps(2, 5, 6);
  _tile_loadd(6, b, 64);
  _tile_dpbf16ps(1, 4, 7);
  if constexpr (M == 2) _tile_dpbf16ps(3, 5, 7);
  _tile_loadd(7, b + tile_size, 64);
}

template <int M, Reuse R>
WEFT_AMX inline void add_products_then_both(const Bits* a, std::size_t row, std::int64_t strip,
                                            const Bits* b) {
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (M == 2) _tile_dpbf16ps(2, 5, 6);
  load_6<R>(b);
  _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(4, a, row);
  if constexpr (M == 2) {
    _tile_dpbf16ps(3, 5, 7);
    _tile_loadd(5, a + strip, row);
  }
  load_7<R>(b + tile_size);
}

/// Of 16 M rows.
template <int M>
WEFT_AMX void multiply_tiles(const Left& left, const Bits* b, std::int64_t steps, float* sums, bool add,
                             const Ahead& ahead) {
  constexpr int line = side * sizeof(float);
  if (add) {
    _tile_loadd(0, sums, line);
    _tile_loadd(1, sums + half, line);
    if constexpr (M == 2) {
      _tile_loadd(2, sums + half * side, line);
      _tile_loadd(3, sums + half * side + half, line);
    }
  } else {
    zero_sums<M>();
  }
  const Bits* a = left.data;
  const std::size_t row = static_cast<std::size_t>(left.row) * sizeof(Bits);
  load_operands<M, Reuse::none>(a, row, left.strip, b);
  for (std::int64_t s = 0; s < steps; ++s) {
    // Not in a function of its own: GCC 12 drops calls of functions that do nothing but prefetch.
    const Bits* next = line_ahead(ahead, s);
    for (std::int64_t i = 0; i < ahead.lines; ++i, next += ahead.block.step) _mm_prefetch(next, _MM_HINT_T1);
    if (s + 1 == steps) break;
    a += left.step;
    b += step_size;
    add_products_then_both<M, Reuse::none>(a, row, left.strip, b);
  }
  add_products<M>();
  store_sums<M>(sums);
}

/// The products of pieces in an order in which each has an operand in common with the one before.
template <int M>
WEFT_AMX void multiply_piece_tiles(const Left& left, const Bits* b, std::int64_t steps, float* sums) {
  constexpr int line = side * sizeof(Bits);
  const std::int64_t strip = left.strip;
  const Bits* a = left.data;
  zero_sums<M>();
  load_operands<M, Reuse::some>(a, line, strip, b + 2 * step_size);
  for (std::int64_t s = 1;; ++s) {
    add_products_then_right<M>(b + step_size);
    add_products_then_left<M>(a + tile_size, line, strip);
    add_products_then_right<M>(b);
    add_products_then_left<M>(a + 2 * tile_size, line, strip);
    add_products_then_left<M>(a, line, strip);
    if (s == steps) break;
    a += left.step;
    b += pieces * step_size;
    add_products_then_both<M, Reuse::some>(a, line, strip, b + 2 * step_size);
  }
  add_products<M>();
  store_sums<M>(sums);
}

constexpr int dot_rows = 8;

/// Of eight rows.
WEFT_AVX512 void multiply_rows(const Bits* a, const Left& left, const Bits* b, std::int64_t steps,
                               float* sums, bool add) {
  __m512 sum[dot_rows][2];
#pragma GCC unroll 8
  for (int i = 0; i < dot_rows; ++i) {
    sum[i][0] = add ? _mm512_load_ps(sums + i * side) : _mm512_setzero_ps();
    sum[i][1] = add ? _mm512_load_ps(sums + i * side + half) : _mm512_setzero_ps();
  }
  for (std::int64_t s = 0; s < steps; ++s, a += left.step, b += step_size)
    for (int pair = 0; pair < half; ++pair) {
      const auto b0 = reinterpret_cast<__m512bh>(_mm512_load_si512(b + pair * side));
      const auto b1 = reinterpret_cast<__m512bh>(_mm512_load_si512(b + tile_size + pair * side));
#pragma GCC unroll 8
      for (int i = 0; i < dot_rows; ++i) {
        int both;
        std::memcpy(&both, a + i * left.row + 2 * pair, sizeof both);
        const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
        sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
        sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
      }
    }
#pragma GCC unroll 8
  for (int i = 0; i < dot_rows; ++i) {
    _mm512_store_ps(sums + i * side, sum[i][0]);
    _mm512_store_ps(sums + i * side + half, sum[i][1]);
  }
}

/// A row of 32.
WEFT_AVX512 inline void write_row(const float* sums, const Target& t, std::int64_t at) {
  __m512 low = _mm512_load_ps(sums), high = _mm512_load_ps(sums + half);
  if (t.type == DType::f32) {
    float* c = static_cast<float*>(t.c) + at;
    if (t.add) {
      low = _mm512_add_ps(low, _mm512_loadu_ps(c));
      high = _mm512_add_ps(high, _mm512_loadu_ps(c + half));
    }
    _mm512_storeu_ps(c, low);
    _mm512_storeu_ps(c + half, high);
  } else {
    Bits* c = static_cast<Bits*>(t.c) + at;
    if (t.add) {
      const __m512i before = _mm512_loadu_si512(c);
      low = _mm512_add_ps(low, from_bits(_mm512_castsi512_si256(before)));
      high = _mm512_add_ps(high, from_bits(_mm512_extracti64x4_epi64(before, 1)));
    }
    _mm512_storeu_si512(c, to_bits(low, high));
  }
}

/// Up to 16 of a row.
WEFT_AVX512 inline void write_part(const float* sums, __mmask16 mask, const Target& t, std::int64_t at) {
  __m512 value = _mm512_load_ps(sums);
  if (t.type == DType::f32) {
    float* c = static_cast<float*>(t.c) + at;
    if (t.add) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, c));
    _mm512_mask_storeu_ps(c, mask, value);
  } else {
    Bits* c = static_cast<Bits*>(t.c) + at;
    if (t.add) value = _mm512_add_ps(value, from_bits(_mm256_maskz_loadu_epi16(mask, c)));
    _mm256_mask_storeu_epi16(c, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(value)));
  }
}

}  // namespace

Kind kind() {
  static const Kind found = [] {
    const auto most = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto allowed = [most](dnnl::cpu_isa isa) {
      return (most & static_cast<unsigned>(isa)) == static_cast<unsigned>(isa);
    };
    if (allowed(dnnl::cpu_isa::avx512_core_amx) && may_use_tiles()) return Kind::tiles;
    return allowed(dnnl::cpu_isa::avx512_core_bf16) ? Kind::dot_products : Kind::none;
  }();
  return found;
}

TileScope::TileScope() {
  if (kind() == Kind::tiles) configure();
}
TileScope::~TileScope() {
  if (kind() == Kind::tiles) release();
}

WEFT_AVX512 void left_from_rows(const Source& s, Bits* tile) {
  Words r;
  read_rows(s, r);
  write(r, tile);
}
WEFT_AVX512 void left_from_columns(const Source& s, Bits* tile) {
  Words r;
  read_pairs(s, r);
  transpose(r);
  write(r, tile);
}
WEFT_AVX512 void right_from_rows(const Source& s, Bits* tile) {
  Words r;
  read_rows(s, r);
  transpose(r);
  write(r, tile);
}
WEFT_AVX512 void right_from_columns(const Source& s, Bits* tile) {
  Words r;
  read_pairs(s, r);
  write(r, tile);
}

WEFT_AVX512 void left_from_rows(const WideSource& s, Bits* tiles) {
  const __m512i even = _mm512_slli_epi32(lane_numbers(), 1),
                odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
  const std::uint32_t mask = first_bits(s.columns);
  const auto low = static_cast<__mmask16>(mask), high = static_cast<__mmask16>(mask >> half);
  for (int i = 0; i < half; ++i, tiles += side) {
    const __m512 first = read_floats(s, i, 0, low), second = read_floats(s, i, half, high);
    write_pieces(_mm512_permutex2var_ps(first, even, second), _mm512_permutex2var_ps(first, odd, second),
                 tiles, tile_size);
  }
}
WEFT_AVX512 void left_from_columns(const WideSource& s, Bits* tiles) {
  // Rows 2 i of k and then rows 2 i + 1: transposed, what the words of a row of m are made of.
  Words even, odd;
  read_floats({s.data, 2 * s.ld, (s.rows + 1) / 2, s.columns}, 0, even);
  read_floats({s.data + s.ld, 2 * s.ld, s.rows / 2, s.columns}, 0, odd);
  transpose(even);
  transpose(odd);
  for (int i = 0; i < half; ++i)
    write_pieces(_mm512_castsi512_ps(even[i]), _mm512_castsi512_ps(odd[i]), tiles + i * side, tile_size);
}
WEFT_AVX512 void right_from_rows(const WideSource& s, Bits* tiles) {
  for (int h = 0; h < side; h += half) {
    Words r;
    read_floats(s, h, r);
    transpose(r);
    for (int i = 0; i < half; i += 2, tiles += side)
      write_pieces(_mm512_castsi512_ps(r[i]), _mm512_castsi512_ps(r[i + 1]), tiles, step_size);
  }
}
WEFT_AVX512 void right_from_columns(const WideSource& s, Bits* tiles) {
  const auto mask = static_cast<__mmask16>(first_bits(s.columns));
  for (int i = 0; i < side; i += 2, tiles += side)
    write_pieces(read_floats(s, i, 0, mask), read_floats(s, i + 1, 0, mask), tiles, step_size);
}

void multiply_pieces(const Left& left, const Bits* right, std::int64_t steps, std::int64_t rows,
                     float* sums) {
  if (rows > half)
    multiply_piece_tiles<2>(left, right, steps, sums);
  else
    multiply_piece_tiles<1>(left, right, steps, sums);
}

void multiply(const Left& left, const Bits* right, std::int64_t steps, std::int64_t rows, float* sums,
              bool add, const Ahead& ahead) {
  if (kind() == Kind::tiles) {
    if (rows > half)
      multiply_tiles<2>(left, right, steps, sums, add, ahead);
    else
      multiply_tiles<1>(left, right, steps, sums, add, ahead);
    return;
  }
  for (std::int64_t i = 0; i < std::min<std::int64_t>(rows, side); i += dot_rows)
    multiply_rows(left.data + i / half * left.strip + i % half * left.row, left, right, steps,
                  sums + i * side, add);
}

WEFT_AVX512 void write_block(const float* sums, int rows, int columns, const Target& t) {
  const std::uint32_t mask = first_bits(columns);
  for (int i = 0; i < rows; ++i, sums += side) {
    if (columns == side) {
      write_row(sums, t, i * t.ld);
    } else {
      write_part(sums, static_cast<__mmask16>(mask), t, i * t.ld);
      if (columns > half) write_part(sums + half, static_cast<__mmask16>(mask >> half), t, i * t.ld + half);
    }
  }
}

WEFT_AVX512 void transpose_block(const float* from, float* to) {
  for (int i = 0; i < side; i += half)
    for (int j = 0; j < side; j += half) {
      Words r;
#pragma GCC unroll 16
      for (int k = 0; k < half; ++k) r[k] = _mm512_load_si512(from + (i + k) * side + j);
      transpose(r);
#pragma GCC unroll 16
      for (int k = 0; k < half; ++k) _mm512_store_si512(to + (j + k) * side + i, r[k]);
    }
}

}  // namespace weft::kernels::bf16_engine
