// Packs operands into tiles, from the form in which they are stored; fp32 operands are packed in pieces.
#include <immintrin.h>

#include <algorithm>

#include "kernels/bf16_engine/isa.hpp"
#include "kernels/bf16_engine/tiles.hpp"

namespace weft::kernels::bf16_engine {
namespace {

using Words = __m512i[half];

/// Transposes 16 x 16 words of 32 bits.
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
  // Now lane l of r[4 i + j] is column 4 l + j of the four rows from 4 i on.
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

/// Reads 16 rows of 32 elements.
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

/// Reads 32 rows of 16 elements, each pair of rows interleaved.
WEFT_AVX512 inline void read_pairs(const Source& s, Words& r) {
  const auto mask = static_cast<__mmask16>(first_bits(std::min(s.columns, half)));
#pragma GCC unroll 16
  for (int i = 0; i < half; ++i)
    r[i] = _mm512_or_si512(widened(s, 2 * i, mask), _mm512_slli_epi32(widened(s, 2 * i + 1, mask), 16));
}

WEFT_AVX512 inline __m512i lane_numbers() {
  return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

/// Rounds x and y to bf16, and gives them as the low and high halves of words; x and y become what the
/// rounding left.
WEFT_AVX512 inline __m512i take_piece(__m512& x, __m512& y) {
  const __m512i order = _mm512_add_epi32(_mm512_mullo_epi32(_mm512_set1_epi32(0x10001), lane_numbers()),
                                         _mm512_set1_epi32(half << 16));
  const __m512i words = _mm512_permutexvar_epi16(order, to_bits(x, y));
  x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)));
  y = _mm512_sub_ps(y, _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(~0xffff))));
  return words;
}

/// Writes a row of each piece's tile; x and y are the first and second halves of its words.
WEFT_AVX512 inline void write_pieces(__m512 x, __m512 y, Bits* to, int piece) {
#pragma GCC unroll 3
  for (int p = 0; p < pieces; ++p) _mm512_store_si512(to + p * piece, take_piece(x, y));
}

/// Reads sixteen elements of a row; they are zero behind the last row.
WEFT_AVX512 inline __m512 read_floats(const WideSource& s, int row, int column, __mmask16 mask) {
  return row < s.rows ? _mm512_maskz_loadu_ps(mask, s.data + row * s.ld + column) : _mm512_setzero_ps();
}

/// Reads sixteen columns of up to 16 rows.
WEFT_AVX512 inline void read_floats(const WideSource& s, int column, Words& r) {
  const auto mask = static_cast<__mmask16>(first_bits(std::min(s.columns - column, half)));
#pragma GCC unroll 16
  for (int i = 0; i < half; ++i) r[i] = _mm512_castps_si512(read_floats(s, i, column, mask));
}

WEFT_AVX512 inline void write(const Words& r, Bits* to) {
#pragma GCC unroll 16
  for (int i = 0; i < half; ++i) _mm512_store_si512(to + i * side, r[i]);
}

}  // namespace

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
  // These are rows 2 i of k, and then rows 2 i + 1. Transposed, they are what the words of a row of m are
  // made of.
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
