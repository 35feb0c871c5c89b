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

/// Whether this process may use the tiles. Linux gives their state to processes that ask for it.
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

/// The first line that a step of a product fetches.
inline const Bits* line_ahead(const Ahead& a, std::int64_t step) {
  const std::int64_t from = a.first + step * a.lines, row = from / half;
  return a.block.data + from % half * a.block.step + row / half * a.block.strip + row % half * a.block.row;
}

// Tiles 0 to 3 are sums, 4 and 5 belong to the left operand, and 6 and 7 to the right one. M, 1 or 2, says
// for how many times 16 rows a function works.

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

/// How a tile is loaded: by TILELOADDT1, for what is read once and must not push the rest out of the
/// first-level cache, or by TILELOADD.
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

/// Loads tiles of both operands. The left operand's rows are `row` bytes apart, and its strips `strip`
/// elements.
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

// The functions below do the same, and load each tile with what follows as soon as it is free
// (docs/kernels.md).

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

/// Multiplies 16 M rows.
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
    // This is not a function of its own, because GCC 12 drops calls of functions that do nothing but
    // prefetch.
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

/// Sixteen columns of a block: the sums of the first are in tiles 0 and 2, those of the second in 1 and 3.
enum class Columns : std::uint8_t { first, second };

template <Columns C>
WEFT_AMX inline void begin_columns(const float* sums, bool add) {
  constexpr int line = side * sizeof(float);
  if constexpr (C == Columns::first) {
    if (!add) {
      _tile_zero(0);
      _tile_zero(2);
    } else {
      _tile_loadd(0, sums, line);
      _tile_loadd(2, sums + half * side, line);
    }
  } else {
    if (!add) {
      _tile_zero(1);
      _tile_zero(3);
    } else {
      _tile_loadd(1, sums + half, line);
      _tile_loadd(3, sums + half * side + half, line);
    }
  }
}

template <Columns C>
WEFT_AMX inline void store_columns(float* sums) {
  constexpr int line = side * sizeof(float);
  if constexpr (C == Columns::first) {
    _tile_stored(0, sums, line);
    _tile_stored(2, sums + half * side, line);
  } else {
    _tile_stored(1, sums + half, line);
    _tile_stored(3, sums + half * side + half, line);
  }
}

template <Columns C>
WEFT_AMX inline void add_columns(const Left& left, const Bits* b, std::int64_t steps) {
  const Bits* a = left.data;
  const std::size_t row = static_cast<std::size_t>(left.row) * sizeof(Bits);
  for (std::int64_t s = 0; s < steps; ++s, a += left.step, b += step_size) {
    if constexpr (C == Columns::first)
      _tile_loadd(6, b, 64);
    else
      _tile_loadd(7, b + tile_size, 64);
    _tile_loadd(4, a, row);
    _tile_loadd(5, a + left.strip, row);
    if constexpr (C == Columns::first) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(2, 5, 6);
    } else {
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
}

/// Multiplies sixteen columns at a time, whose sums are stored while the next are made. Where there are few
/// steps, the beginning and end of a block take as long as its products.
WEFT_AMX void multiply_columns(const Left& left, const Bits* b, std::int64_t panel, std::int64_t steps,
                               std::int64_t panels, float* sums, bool add) {
  for (std::int64_t j = 0; j < panels; ++j, b += panel, sums += block_size) {
    begin_columns<Columns::first>(sums, add);
    add_columns<Columns::first>(left, b, steps);
    if (j > 0) store_columns<Columns::second>(sums - block_size);
    begin_columns<Columns::second>(sums, add);
    add_columns<Columns::second>(left, b, steps);
    store_columns<Columns::first>(sums);
  }
  store_columns<Columns::second>(sums - block_size);
}

/// Multiplies operands in pieces. The order is such that each product has an operand in common with the one
/// before.
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

/// Multiplies eight rows by H halves of a panel by dot products. Pairs of k behind the last are left out:
/// where k does not divide by 32, they would be a good part of the time.
template <int H>
WEFT_AVX512 void multiply_rows(const Bits* a, const Left& left, const Bits* b, std::int64_t k, float* sums,
                               bool add) {
  __m512 sum[dot_rows][H];
#pragma GCC unroll 8
  for (int i = 0; i < dot_rows; ++i)
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h)
      sum[i][h] = add ? _mm512_load_ps(sums + i * side + h * half) : _mm512_setzero_ps();
  for (std::int64_t rest = (k + 1) / 2; rest > 0; rest -= half, a += left.step, b += step_size) {
    const std::int64_t pairs = std::min<std::int64_t>(rest, half);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      __m512bh y[H];
#pragma GCC unroll 2
      for (int h = 0; h < H; ++h)
        y[h] = reinterpret_cast<__m512bh>(_mm512_load_si512(b + h * tile_size + pair * side));
#pragma GCC unroll 8
      for (int i = 0; i < dot_rows; ++i) {
        int both;
        std::memcpy(&both, a + i * left.row + 2 * pair, sizeof both);
        const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
#pragma GCC unroll 2
        for (int h = 0; h < H; ++h) sum[i][h] = _mm512_dpbf16_ps(sum[i][h], x, y[h]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < dot_rows; ++i)
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) _mm512_store_ps(sums + i * side + h * half, sum[i][h]);
}

/// Writes a row of 32 sums.
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

/// Writes up to 16 sums of a row.
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

void multiply_pieces(const Left& left, const Bits* right, std::int64_t steps, std::int64_t rows,
                     float* sums) {
  if (rows > half)
    multiply_piece_tiles<2>(left, right, steps, sums);
  else
    multiply_piece_tiles<1>(left, right, steps, sums);
}

void multiply(const Left& left, const Bits* right, const Extent& extent, float* sums, bool add,
              const Ahead& ahead) {
  if (kind() == Kind::tiles) {
    const auto multiply_all = extent.rows > half ? multiply_tiles<2> : multiply_tiles<1>;
    return multiply_all(left, right, blocks_of(extent.k), sums, add, ahead);
  }
  const auto multiply_eight = extent.columns > half ? multiply_rows<2> : multiply_rows<1>;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(extent.rows, side); i += dot_rows)
    multiply_eight(left.data + i / half * left.strip + i % half * left.row, left, right, extent.k,
                   sums + i * side, add);
}

void multiply_panels(const Left& left, const Bits* right, std::int64_t panel, std::int64_t k,
                     std::int64_t panels, float* sums, bool add) {
  if (kind() == Kind::tiles) return multiply_columns(left, right, panel, blocks_of(k), panels, sums, add);
  for (std::int64_t j = 0; j < panels; ++j)
    multiply(left, right + j * panel, {k}, sums + j * block_size, add);
}

// In the source of its callers, GCC 12 would drop this function (docs/kernels.md).
void fetch_rows(const Bits* x, std::int64_t ld, int rows, std::int64_t columns) {
  for (int i = 0; i < rows; ++i, x += ld)
    for (std::int64_t j = 0; j < columns; j += side) _mm_prefetch(x + j, _MM_HINT_T1);
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

}  // namespace weft::kernels::bf16_engine
