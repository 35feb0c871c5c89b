// Attention on the host, on fp32 tiles of 64 queries by 64 keys. Scores are held transposed, [key][query], so
// that the softmax over keys is elementwise in a vector of queries, and every product has the form of
// tile_gemm.hpp without a horizontal sum. A head's keys and values are copied once to a place where they lie
// together: in [B, T, heads, D] their rows are so far apart that a tile of them does not fit into the sets of
// the first-level cache.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/limits.hpp"
#include "base/portable_math.hpp"
#include "kernels/attention_backends.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/items.hpp"
#include "kernels/math.hpp"
#include "kernels/tile_gemm.hpp"

namespace weft::kernels::tiled {

namespace {

using tile::Left;
using tile::multiply;

constexpr std::int64_t side = 64;  ///< queries and keys of a tile
constexpr std::int64_t half = side / 2;
constexpr std::int64_t most_dim = limits::most_head_dim;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
/// A score that is masked. It may be the first of its row: its power is then wiped out by that of the next
/// score.
constexpr float never = -1e30f;

using Square = float[side * side];
using Rows = float[side * most_dim];

/// Tells where the rows of one head of a sequence, or of a run of its queries, are.
struct HeadView {
  std::int64_t offset;  ///< elements before the first row
  std::int64_t stride;  ///< elements between two rows
};

/// A kv head of [B, T, Hkv, D].
HeadView view_of_keys(const AttentionShape& s, std::int64_t batch, std::int64_t kv_head) {
  return {(batch * s.seq * s.kv_heads + kv_head) * s.head_dim, s.kv_heads * s.head_dim};
}

std::int64_t tiles_of(std::int64_t rows) {
  return (rows + side - 1) / side;
}

/// A tile of the queries of one head.
struct QueryTile {
  std::int64_t run, batch, head;
  std::int64_t row;    ///< its first query's number in the run
  std::int64_t first;  ///< and its index in the sequence
  std::int64_t count;

  /// The tile that begins with query `row_` of a run.
  QueryTile(const AttentionShape& s, std::int64_t run_, std::int64_t batch_, std::int64_t head_,
            std::int64_t row_)
      : run(run_),
        batch(batch_),
        head(head_),
        row(row_),
        first(s.first(run) + row),
        count(std::min(side, s.queries() - row)) {}

  std::int64_t end() const { return first + count; }
  /// The head of [R, B, Tq, H, D], whose row 0 is the run's first query.
  HeadView view(const AttentionShape& s) const {
    return {(sequence(s) * s.queries() * s.heads + head) * s.head_dim, s.heads * s.head_dim};
  }
  /// The first query's place in lse [R, B, H, Tq].
  std::int64_t place_in_lse(const AttentionShape& s) const {
    return (sequence(s) * s.heads + head) * s.queries() + row;
  }
  /// The first query's place in the positions [R, B, Tq].
  std::int64_t place_in_positions(const AttentionShape& s) const { return sequence(s) * s.queries() + row; }

 private:
  std::int64_t sequence(const AttentionShape& s) const { return run * s.batch + batch; }
};

/// Reads the tile of `count` rows from `first` on, as fp32 times `factor`, padded with zeros to `ld` columns
/// and `rows` rows.
template <class T>
void load(const T* data, HeadView view, std::int64_t first, std::int64_t count, std::int64_t dim,
          float factor, float* to, std::int64_t ld, std::int64_t rows) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T* from = data + view.offset + (first + i) * view.stride;
    float* row = to + i * ld;
#pragma omp simd
    for (std::int64_t d = 0; d < dim; ++d) row[d] = to_float(from[d]) * factor;
    for (std::int64_t d = dim; d < ld; ++d) row[d] = 0;
  }
  if (rows > count)
    std::memset(to + count * ld, 0, static_cast<std::size_t>((rows - count) * ld) * sizeof(float));
}

template <class T>
void store(const float* from, std::int64_t ld, std::int64_t count, std::int64_t dim, float factor, T* data,
           HeadView view, std::int64_t first) {
  for (std::int64_t i = 0; i < count; ++i) {
    T* to = data + view.offset + (first + i) * view.stride;
    const float* row = from + i * ld;
#pragma omp simd
    for (std::int64_t d = 0; d < dim; ++d) to[d] = from_float<T>(row[d] * factor);
  }
}

/// to [dim][side] = from [side][ld], transposed.
void transpose(const float* from, std::int64_t ld, std::int64_t dim, float* to) {
  for (std::int64_t d = 0; d < dim; ++d)
    for (std::int64_t i = 0; i < side; ++i) to[d * side + i] = from[i * ld + d];
}

/// Masks future keys in the scores [key][query] of a tile whose keys begin `ahead` tokens behind its queries.
void mask_future(float* scores, std::int64_t keys, std::int64_t ahead, float value) {
  for (std::int64_t k = std::max<std::int64_t>(0, 1 - ahead); k < keys; ++k)
    for (std::int64_t q = 0; q < std::min(side, k + ahead); ++q) scores[k * side + q] = value;
}

// These are the products of a tile. It is on the diagonal when its keys are the tokens of its queries: then
// no query of the first half sees a key of the second half, so all products leave that quarter out.

std::int64_t first_half(std::int64_t rows) {
  return std::min(rows, half);
}

/// to [key][query] = keys [keys][dim] times queries [dim][side], with zeros in the quarter that nobody sees.
void multiply_keys(bool diagonal, std::int64_t keys, std::int64_t dim, const float* k, std::int64_t ld,
                   const float* q_transposed, float* to) {
  const std::int64_t early = diagonal ? first_half(keys) : keys;
  multiply(early, side, dim, Left{k, ld, 1}, q_transposed, side, to, side, WriteMode::replace);
  if (early == keys) return;
  multiply(keys - half, half, dim, Left{k + half * ld, ld, 1}, q_transposed + half, side,
           to + half * side + half, side, WriteMode::replace);
  for (std::int64_t i = half; i < keys; ++i) std::memset(to + i * side, 0, half * sizeof(float));
}

/// sum [keys][ld] += p [key][query] times rows [query][ld].
void add_over_queries(bool diagonal, std::int64_t keys, std::int64_t queries, const float* p,
                      const float* rows, std::int64_t ld, float* sum) {
  const std::int64_t early = diagonal ? first_half(keys) : keys;
  multiply(early, ld, queries, Left{p, side, 1}, rows, ld, sum, ld, WriteMode::add);
  if (early < keys)
    multiply(keys - half, ld, queries - half, Left{p + half * side + half, side, 1}, rows + half * ld, ld,
             sum + half * ld, ld, WriteMode::add);
}

/// sum [queries][ld] += p [key][query], transposed, times rows [key][ld].
void add_over_keys(bool diagonal, std::int64_t queries, std::int64_t keys, const float* p, const float* rows,
                   std::int64_t ld, float* sum) {
  const std::int64_t early = diagonal ? first_half(queries) : queries;
  multiply(early, ld, diagonal ? first_half(keys) : keys, Left{p, 1, side}, rows, ld, sum, ld,
           WriteMode::add);
  if (early < queries)
    multiply(queries - half, ld, keys, Left{p + half, 1, side}, rows, ld, sum + half * ld, ld,
             WriteMode::add);
}

/// Tells where the documents of a tile's queries begin.
struct Starts {
  const std::int32_t* positions;  ///< positions of the queries; null: there is one document
  std::int64_t first, queries;    ///< the tile's first query, and their number

  Starts(const AttentionShape& s, const QueryTile& tile, const std::int32_t* all)
      : positions(all == nullptr ? nullptr : all + tile.place_in_positions(s)),
        first(tile.first),
        queries(tile.count) {}

  std::int64_t of(std::int64_t query) const {
    return positions == nullptr ? 0 : first + query - positions[query];
  }
  std::int64_t first_tile() const { return of(0) / side * side; }
  /// Masks keys of other documents in the scores [key][query] of a tile of keys from `begin` on.
  void mask(float* scores, std::int64_t begin, std::int64_t keys, float value) const {
    if (positions == nullptr) return;
    for (std::int64_t q = 0; q < queries; ++q)
      for (std::int64_t k = 0; k < keys && begin + k < of(q); ++k) scores[k * side + q] = value;
  }
};

/// The tiles for one item of the forward pass.
struct ForwardTiles {
  alignas(64) Rows q, q_transposed, o;
  alignas(64) Square scores;
  alignas(64) float largest[side], sum[side], rescale[side];
};

/// The online softmax: scores become exp(score - largest), and `largest`, `sum` and the factor for older
/// terms are brought up to date.
void online_softmax(ForwardTiles& t, std::int64_t keys) {
  alignas(64) float before[side];
#pragma omp simd
  for (std::int64_t q = 0; q < side; ++q) before[q] = t.largest[q];
  for (std::int64_t k = 0; k < keys; ++k) {
#pragma omp simd
    for (std::int64_t q = 0; q < side; ++q) {
      const float s = t.scores[k * side + q];
      t.largest[q] = s > t.largest[q] ? s : t.largest[q];
    }
  }
#pragma omp simd
  for (std::int64_t q = 0; q < side; ++q) {
    t.rescale[q] = exp_f32(before[q] - t.largest[q]);
    t.sum[q] *= t.rescale[q];
  }
  for (std::int64_t k = 0; k < keys; ++k)
#pragma omp simd
    for (std::int64_t q = 0; q < side; ++q) {
      const float p = exp_f32(t.scores[k * side + q] - t.largest[q]);
      t.scores[k * side + q] = p;
      t.sum[q] += p;
    }
}

template <class T>
struct Forward {
  AttentionShape shape;
  const T* q;
  const T* k;
  const T* v;
  T* o;
  float* lse;
  float* packed;                  ///< [B][Hkv][K, V][T][padded D]
  const std::int32_t* positions;  ///< null without documents

  float* packed_of(std::int64_t sequence) const {
    return packed + sequence * 2 * shape.seq * tile::padded(shape.head_dim);
  }

  /// Packs a tile of a kv head's keys and values.
  void pack(std::int64_t item) const {
    const std::int64_t tiles = tiles_of(shape.seen()), sequence = item / tiles, first = item % tiles * side;
    const std::int64_t ld = tile::padded(shape.head_dim), rows = std::min(side, shape.seq - first);
    const HeadView theirs = view_of_keys(shape, sequence / shape.kv_heads, sequence % shape.kv_heads);
    float* to = packed_of(sequence) + first * ld;
    load(k, theirs, first, rows, shape.head_dim, 1.0f, to, ld, rows);
    load(v, theirs, first, rows, shape.head_dim, 1.0f, to + shape.seq * ld, ld, rows);
  }

  /// Runs an item. Items are ordered longest first: the last tile of queries of every head comes first, then
  /// the one before it.
  void operator()(std::int64_t item) const {
    const std::int64_t heads = shape.batch * shape.heads, tiles = tiles_of(shape.queries());
    const std::int64_t index = shape.runs() * tiles - 1 - item / heads;
    query_tile({shape, index / tiles, item % heads / shape.heads, item % shape.heads, index % tiles * side});
  }

  void query_tile(const QueryTile& mine) const {
    ForwardTiles t;
    const std::int64_t ld = tile::padded(shape.head_dim);
    const std::int64_t first = mine.first, queries = mine.count;
    const float* keys_of_head =
        packed_of(mine.batch * shape.kv_heads + mine.head / (shape.heads / shape.kv_heads));
    const float* values_of_head = keys_of_head + shape.seq * ld;

    load(q, mine.view(shape), mine.row, queries, shape.head_dim,
         1.0f / std::sqrt(static_cast<float>(shape.head_dim)), t.q, ld, side);
    transpose(t.q, ld, shape.head_dim, t.q_transposed);
    std::memset(t.o, 0, static_cast<std::size_t>(side * ld) * sizeof(float));
    for (std::int64_t i = 0; i < side; ++i) {
      t.largest[i] = minus_infinity;
      t.sum[i] = 0;
    }
    const Starts starts(shape, mine, positions);
    for (std::int64_t begin = starts.first_tile(); begin < mine.end(); begin += side) {
      const std::int64_t keys = std::min(side, mine.end() - begin);
      const bool diagonal = begin == first;
      multiply_keys(diagonal, keys, shape.head_dim, keys_of_head + begin * ld, ld, t.q_transposed, t.scores);
      mask_future(t.scores, keys, begin - first, minus_infinity);
      starts.mask(t.scores, begin, keys, never);
      online_softmax(t, keys);
      for (std::int64_t i = 0; i < queries; ++i)
#pragma omp simd
        for (std::int64_t d = 0; d < ld; ++d) t.o[i * ld + d] *= t.rescale[i];
      add_over_keys(diagonal, queries, keys, t.scores, values_of_head + begin * ld, ld, t.o);
    }
    finish(t, ld, mine);
  }

  void finish(ForwardTiles& t, std::int64_t ld, const QueryTile& mine) const {
    for (std::int64_t i = 0; i < mine.count; ++i) {
      store(t.o + i * ld, ld, 1, shape.head_dim, 1.0f / t.sum[i], o, mine.view(shape), mine.row + i);
      lse[mine.place_in_lse(shape) + i] =
          t.largest[i] + static_cast<float>(portable::log(static_cast<double>(t.sum[i])));
    }
  }
};

/// The rows [T][padded D] of a kv head that the backward pass needs beside those of a tile.
struct HeadRows {
  std::int64_t ld, count;
  float *k, *v, *dk, *dv;

  HeadRows(const AttentionShape& s, float* memory)
      : ld(tile::padded(s.head_dim)),
        count(s.seq * ld),
        k(memory),
        v(memory + count),
        dk(memory + 2 * count),
        dv(memory + 3 * count) {}
  static std::int64_t floats(const AttentionShape& s) { return 4 * s.seq * tile::padded(s.head_dim); }
  void clear_sums() const { std::memset(dk, 0, static_cast<std::size_t>(2 * count) * sizeof(float)); }
};

/// The tiles for one block of queries of the backward pass.
struct BackwardTiles {
  alignas(64) Rows q, q_transposed, dout, dout_transposed, dq;
  alignas(64) Square p, ds;
  alignas(64) float lse[side], delta[side];
};

/// The backward pass. An item is a sequence and a kv head: nobody else adds to its dk and dv, and its order
/// is fixed.
template <class T>
struct Backward {
  AttentionShape shape;
  const T* q;
  const T* k;
  const T* v;
  const T* o;
  const float* lse;
  const T* dout;
  T* dq;
  T* dk;
  T* dv;
  const std::int32_t* positions;  ///< null without documents
  float* scratch;                 ///< [slots] HeadRows
  ItemSlots slots;

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.head_dim)); }

  void operator()(std::int64_t item) const {
    const std::int64_t batch = item / shape.kv_heads;
    const std::int64_t kv_head = item % shape.kv_heads;
    const std::int64_t group = shape.heads / shape.kv_heads;
    const HeadView theirs = view_of_keys(shape, batch, kv_head);
    const auto slot = slots.acquire(item);
    const HeadRows rows(shape, scratch + slot * HeadRows::floats(shape));
    load(k, theirs, 0, shape.seen(), shape.head_dim, 1.0f, rows.k, rows.ld, shape.seen());
    load(v, theirs, 0, shape.seen(), shape.head_dim, 1.0f, rows.v, rows.ld, shape.seen());
    rows.clear_sums();
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
      for (std::int64_t run = 0; run < shape.runs(); ++run)
        for (std::int64_t row = 0; row < shape.queries(); row += side)
          query_tile({shape, run, batch, head, row}, rows);
    store(rows.dk, rows.ld, shape.seq, shape.head_dim, 1.0f, dk, theirs, 0);
    store(rows.dv, rows.ld, shape.seq, shape.head_dim, 1.0f, dv, theirs, 0);
    slots.release(slot);
  }

  void query_tile(const QueryTile& mine, const HeadRows& rows) const {
    BackwardTiles t;
    const std::int64_t ld = rows.ld, queries = mine.count;
    load_queries(t, ld, mine);
    const Starts starts(shape, mine, positions);
    for (std::int64_t begin = starts.first_tile(); begin < mine.end(); begin += side) {
      const std::int64_t keys = std::min(side, mine.end() - begin), at = begin * ld;
      const bool diagonal = begin == mine.first;
      score_gradients(t, ld, keys, begin, rows, starts);
      add_over_queries(diagonal, keys, queries, t.p, t.dout, ld, rows.dv + at);
      add_over_queries(diagonal, keys, queries, t.ds, t.q, ld, rows.dk + at);
      add_over_keys(diagonal, queries, keys, t.ds, rows.k + at, ld, t.dq);
    }
    store(t.dq, ld, queries, shape.head_dim, scale(), dq, mine.view(shape), mine.row);
  }

  /// Loads the tile's queries (scaled) and output gradients, both also transposed, with lse and delta = sum
  /// of dout * o.
  void load_queries(BackwardTiles& t, std::int64_t ld, const QueryTile& mine) const {
    const HeadView view = mine.view(shape);
    load(q, view, mine.row, mine.count, shape.head_dim, scale(), t.q, ld, side);
    load(dout, view, mine.row, mine.count, shape.head_dim, 1.0f, t.dout, ld, side);
    load(o, view, mine.row, mine.count, shape.head_dim, 1.0f, t.dq, ld, side);
    for (std::int64_t i = 0; i < side; ++i) {
      float delta = 0;
#pragma omp simd reduction(+ : delta)
      for (std::int64_t d = 0; d < ld; ++d) delta += t.dout[i * ld + d] * t.dq[i * ld + d];
      t.delta[i] = delta;
      t.lse[i] = i < mine.count ? lse[mine.place_in_lse(shape) + i] : 0.0f;
    }
    transpose(t.q, ld, shape.head_dim, t.q_transposed);
    transpose(t.dout, ld, shape.head_dim, t.dout_transposed);
    std::memset(t.dq, 0, static_cast<std::size_t>(side * ld) * sizeof(float));
  }

  /// Computes p = exp(score - lse) and ds = p * (dp - delta), both [key][query].
  void score_gradients(BackwardTiles& t, std::int64_t ld, std::int64_t keys, std::int64_t begin,
                       const HeadRows& rows, const Starts& starts) const {
    const bool diagonal = begin == starts.first;
    multiply_keys(diagonal, keys, shape.head_dim, rows.k + begin * ld, ld, t.q_transposed, t.p);
    multiply_keys(diagonal, keys, shape.head_dim, rows.v + begin * ld, ld, t.dout_transposed, t.ds);
    mask_future(t.p, keys, begin - starts.first, minus_infinity);
    starts.mask(t.p, begin, keys, minus_infinity);
    for (std::int64_t key = 0; key < keys; ++key)
#pragma omp simd
      for (std::int64_t i = 0; i < side; ++i) {
        const float p = exp_f32(t.p[key * side + i] - t.lse[i]);
        t.p[key * side + i] = p;
        t.ds[key * side + i] = p * (t.ds[key * side + i] - t.delta[i]);
      }
  }
};

}  // namespace

void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions) {
  const std::int64_t key_tiles = tiles_of(shape.seen()),
                     query_tiles = shape.runs() * tiles_of(shape.queries());
  with_float_type("attention", t, [&](auto type) {
    using T = decltype(type);
    const Forward<T> forward{shape,
                             static_cast<const T*>(q),
                             static_cast<const T*>(k),
                             static_cast<const T*>(v),
                             static_cast<T*>(o),
                             lse,
                             static_cast<float*>(scratch),
                             positions};
    run_items(space, "weft::attention::pack", shape.batch * shape.kv_heads * key_tiles,
              [forward](std::int64_t item) { forward.pack(item); });
    run_items(space, "weft::attention::forward", shape.batch * shape.heads * query_tiles, forward);
  });
}

std::size_t attention_scratch_bytes(AttentionShape s) {
  return static_cast<std::size_t>(s.batch * s.kv_heads * 2 * s.seq * tile::padded(s.head_dim)) *
         sizeof(float);
}

void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& g) {
  with_float_type("attention_grad", t, [&](auto type) {
    using T = decltype(type);
    run_items(
        space, "weft::attention::backward", shape.batch * shape.kv_heads,
        Backward<T>{shape, static_cast<const T*>(g.q), static_cast<const T*>(g.k), static_cast<const T*>(g.v),
                    static_cast<const T*>(g.o), g.lse, static_cast<const T*>(g.do_), static_cast<T*>(g.dq),
                    static_cast<T*>(g.dk), static_cast<T*>(g.dv), g.positions, static_cast<float*>(g.scratch),
                    ItemSlots(shape.batch * shape.kv_heads)});
  });
}

std::size_t attention_grad_scratch_bytes(AttentionShape s) {
  return static_cast<std::size_t>(ItemSlots::count(s.batch * s.kv_heads) * HeadRows::floats(s)) *
         sizeof(float);
}

}  // namespace weft::kernels::tiled
