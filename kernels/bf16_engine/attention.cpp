// Attention in bf16 on blocks of 32 by 32 (bf16_engine/tiles.hpp). Scores and softmax are fp32, in powers of
// two. Probabilities and their gradients are rounded to bf16 before they are multiplied, as in
// FlashAttention. The forward takes 32 queries against 128 keys at a time, with a query's scores in a row.
// The backward is transposed, and takes 32 keys against 128 queries. What softmax needs of a query then lies
// along a vector, and the sums of dk and dv stay where they are.
#include "kernels/attention_backends.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/align.hpp"
#include "base/limits.hpp"
#include "kernels/bf16_engine/softmax.hpp"
#include "kernels/bf16_engine/tiles.hpp"
#include "kernels/items.hpp"

namespace weft::kernels::bf16_engine {
namespace {

constexpr std::int64_t most_dim_blocks = limits::most_head_dim / side;
constexpr float log2_e = 1.44269504088896341f;

/// One head of a tensor [sequences, length, heads, D].
struct Head {
  std::int64_t offset, ld, length, dim;
  Head(std::int64_t sequence, std::int64_t rows, std::int64_t head, std::int64_t heads, std::int64_t head_dim)
      : offset((sequence * rows * heads + head) * head_dim),
        ld(heads * head_dim),
        length(rows),
        dim(head_dim) {}

  std::int64_t row_blocks() const { return blocks_of(length); }
  std::int64_t dim_blocks() const { return blocks_of(dim); }
  int columns(std::int64_t dim_block) const {
    return static_cast<int>(std::min<std::int64_t>(side, dim - dim_block * side));
  }
  int rows(std::int64_t first, int most) const {
    return static_cast<int>(std::clamp<std::int64_t>(length - first, 0, most));
  }

  // The functions below pack a block of 32 rows.
  /// Packs a left operand [row, dim]; `to` is the block's place.
  void pack_left(const Bits* x, std::int64_t block, Bits* to) const {
    for (int h = 0; h < 2; ++h)
      for (std::int64_t d = 0; d < dim_blocks(); ++d)
        left_from_rows(tile_rows(x, 2 * block + h, d), to + (h * dim_blocks() + d) * tile_size);
  }
  /// Packs a right operand [dim, row] in panels of rows; `to` is the head's place.
  void pack_right_rows(const Bits* x, std::int64_t block, Bits* to) const {
    for (int h = 0; h < 2; ++h)
      for (std::int64_t d = 0; d < dim_blocks(); ++d)
        right_from_rows(tile_rows(x, 2 * block + h, d),
                        to + ((block * dim_blocks() + d) * 2 + h) * tile_size);
  }
  /// Packs a right operand [row, dim] in panels of dim; `to` is the head's place.
  void pack_right_columns(const Bits* x, std::int64_t block, Bits* to) const {
    for (std::int64_t d = 0; d < dim_blocks(); ++d)
      for (int h = 0; h < 2; ++h) {
        const int there = std::clamp(columns(d) - h * half, 0, half);
        const Source s{x + offset + block * side * ld + d * side + h * half, ld,
                       there > 0 ? rows(block * side, side) : 0, there};
        right_from_columns(s, to + ((d * row_blocks() + block) * 2 + h) * tile_size);
      }
  }
  Target target(Bits* x, std::int64_t row, std::int64_t dim_block) const {
    return {x + offset + row * ld + dim_block * side, ld, DType::bf16, false};
  }
  /// Fetches a block of 32 rows, whose lines lie too far apart for the processor to foresee.
  void fetch(const Bits* x, std::int64_t block) const {
    fetch_rows(x + offset + block * side * ld, ld, rows(block * side, side), dim);
  }

 private:
  Source tile_rows(const Bits* x, std::int64_t strip, std::int64_t d) const {
    return {x + offset + strip * half * ld + d * side, ld, rows(strip * half, half), columns(d)};
  }
};

/// A query head in one run of a sequence.
struct QueryHead : Head {
  std::int64_t first;      ///< the index in the sequence of row 0
  std::int64_t lse;        ///< the place of row 0 in lse [R, B, H, Tq]
  std::int64_t positions;  ///< the place of row 0 in the positions [R, B, Tq]
  QueryHead(const AttentionShape& s, std::int64_t run, std::int64_t batch, std::int64_t head)
      : Head(run * s.batch + batch, s.queries(), head, s.heads, s.head_dim),
        first(s.first(run)),
        lse(((run * s.batch + batch) * s.heads + head) * s.queries()),
        positions((run * s.batch + batch) * s.queries()) {}
};

Head key_head(const AttentionShape& s, std::int64_t batch, std::int64_t kv_head) {
  return {batch, s.seq, kv_head, s.kv_heads, s.head_dim};
}

/// The elements of a packed head of `rows` rows.
std::int64_t packed_elements(const AttentionShape& s, std::int64_t rows) {
  return blocks_of(rows) * blocks_of(s.head_dim) * step_size;
}

// --- Forward

struct Forward {
  AttentionShape shape;
  const Bits *q, *k, *v;
  Bits* o;
  float* lse;
  Bits* packed;                   ///< [B, Hkv][K, V]
  const std::int32_t* positions;  ///< null without documents

  std::int64_t packed_size() const { return packed_elements(shape, shape.seq); }
  Bits* packed_k(std::int64_t sequence) const { return packed + sequence * 2 * packed_size(); }
  Bits* packed_v(std::int64_t sequence) const { return packed_k(sequence) + packed_size(); }

  void pack(std::int64_t item) const {
    const std::int64_t blocks = blocks_of(shape.seen()), sequence = item / blocks, block = item % blocks;
    const Head head = key_head(shape, sequence / shape.kv_heads, sequence % shape.kv_heads);
    head.fetch(k, block + 1);
    head.fetch(v, block + 1);
    head.pack_right_rows(k, block, packed_k(sequence));
    head.pack_right_columns(v, block, packed_v(sequence));
  }

  /// Runs a block of queries. Items go head by head, because the head's keys and values then stay in the
  /// cache, and the longest come first.
  void queries(std::int64_t item) const {
    const std::int64_t of_run = blocks_of(shape.queries()), blocks = shape.runs() * of_run;
    const std::int64_t head = item / blocks, block = blocks - 1 - item % blocks;
    block_of_queries(head / shape.heads, head % shape.heads, block / of_run, block % of_run);
  }

 private:
  void block_of_queries(std::int64_t batch, std::int64_t head, std::int64_t run, std::int64_t block) const {
    const QueryHead h(shape, run, batch, head);
    const std::int64_t sequence = batch * shape.kv_heads + head / (shape.heads / shape.kv_heads);
    const std::int64_t dims = h.dim_blocks(), row = block * side, first = h.first + row;
    const int rows = h.rows(row, side);
    const float scale = log2_e / std::sqrt(static_cast<float>(shape.head_dim));

    alignas(64) Bits query[most_dim_blocks * step_size];
    alignas(64) float sums[most_dim_blocks * block_size], scores[chunk_blocks * block_size];
    alignas(64) Chunk p;
    Softmax softmax{};
    std::fill(std::begin(softmax.largest), std::end(softmax.largest), never);
    h.pack_left(q, block, query);
    h.fetch(o, block);
    if (block > 0) h.fetch(q, block - 1);  // this is the thread's next block, if the head has no other thread
    std::int32_t first_keys[side] = {};    // the first key that each query sees
    if (positions != nullptr)
      for (int i = 0; i < rows; ++i)
        first_keys[i] = static_cast<std::int32_t>(first + i) - positions[h.positions + row + i];
    const std::int64_t first_block = first_keys[0] / side, end_block = blocks_of(first + rows);
    const std::int64_t down = blocks_of(shape.seq) * step_size;  // elements from panel to panel of v
    const TileScope scope;
    for (std::int64_t begin = first_block; begin < end_block; begin += chunk_blocks) {
      const std::int64_t blocks = std::min(chunk_blocks, end_block - begin);
      multiply_panels(packed_left(query, dims), packed_k(sequence) + begin * dims * step_size,
                      dims * step_size, h.dim, blocks, scores, false);
      const bool changed =
          probabilities(scores, blocks, first - begin * side, positions == nullptr ? nullptr : first_keys,
                        begin * side, scale, softmax, p);
      if (begin > first_block && changed) scale_rows(sums, dims, softmax.factor);
      multiply_panels(left_of(p), packed_v(sequence) + begin * step_size, down, blocks * side, dims, sums,
                      begin > first_block);
    }
    finish(softmax, rows, lse + h.lse + row);
    scale_rows(sums, dims, softmax.factor);
    for (std::int64_t d = 0; d < dims; ++d)
      write_block(sums + d * block_size, rows, h.columns(d), h.target(o, row, d));
  }
};

// --- Backward

/// What an item of the backward pass needs beside its operands: memory for a kv head, and for one run at a
/// time of one query head of those that read it.
struct Workspace {
  Bits *k_left, *v_left, *k_right;
  Bits *q_rows, *q_columns, *do_rows, *do_columns;  ///< right operands
  float *dq, *dk, *dv;                              ///< blocks [rows][dim]
  float *lse, *delta;                               ///< log-sum-exp (in base 2) and delta of each query
  std::int32_t* first_keys;                         ///< the first key that each query sees

  Workspace(const AttentionShape& s, std::byte* memory) {
    const auto take = [&memory](auto*& part, std::int64_t elements) {
      part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(memory);
      memory += static_cast<std::size_t>(elements) * sizeof(*part);
    };
    const std::int64_t keys = packed_elements(s, s.seq), queries = packed_elements(s, s.queries());
    for (Bits** part : {&k_left, &v_left, &k_right}) take(*part, keys);
    for (Bits** part : {&q_rows, &q_columns, &do_rows, &do_columns}) take(*part, queries);
    take(dq, queries);
    for (float** part : {&dk, &dv}) take(*part, keys);
    for (float** part : {&lse, &delta}) take(*part, blocks_of(s.queries()) * side);
    take(first_keys, blocks_of(s.queries()) * side);
  }
  static std::size_t bytes(const AttentionShape& s) {
    const auto keys = static_cast<std::size_t>(packed_elements(s, s.seq));
    const auto queries = static_cast<std::size_t>(packed_elements(s, s.queries()));
    return aligned(
        keys * (3 * sizeof(Bits) + 2 * sizeof(float)) + queries * (4 * sizeof(Bits) + sizeof(float)) +
        static_cast<std::size_t>(blocks_of(s.queries()) * side) * (2 * sizeof(float) + sizeof(std::int32_t)));
  }
};

/// The backward pass. An item is a sequence and a kv head: nobody else adds to its dk and dv.
struct Backward {
  AttentionShape shape;
  const Bits *q, *k, *v, *o;
  const float* lse;
  const Bits* dout;
  Bits *dq, *dk, *dv;
  std::byte* scratch;
  const std::int32_t* positions;  ///< null without documents
  ItemSlots slots;

  float scale() const { return 1 / std::sqrt(static_cast<float>(shape.head_dim)); }

  void operator()(std::int64_t item) const {
    const auto slot = slots.acquire(item);
    Workspace w(shape, scratch + static_cast<std::size_t>(slot) * Workspace::bytes(shape));
    const std::int64_t batch = item / shape.kv_heads, kv_head = item % shape.kv_heads;
    const std::int64_t group = shape.heads / shape.kv_heads;
    const Head theirs = key_head(shape, batch, kv_head);
    for (std::int64_t block = 0; block < blocks_of(shape.seen()); ++block) {
      theirs.fetch(k, block + 1);
      theirs.fetch(v, block + 1);
      theirs.pack_left(k, block, w.k_left + block * theirs.dim_blocks() * step_size);
      theirs.pack_left(v, block, w.v_left + block * theirs.dim_blocks() * step_size);
      theirs.pack_right_columns(k, block, w.k_right);
    }
    clear(w.dk, theirs);
    clear(w.dv, theirs);
    {
      const TileScope scope;
      for (std::int64_t run = 0; run < shape.runs(); ++run) {
        find_first_keys(QueryHead(shape, run, batch, 0), w);
        for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
          one_head(QueryHead(shape, run, batch, head), w);
      }
    }
    store(w.dk, theirs, scale(), dk);
    store(w.dv, theirs, 1, dv);
    slots.release(slot);
  }

 private:
  void clear(float* sums, const Head& head) const {
    std::memset(sums, 0, static_cast<std::size_t>(packed_elements(shape, head.length)) * sizeof(float));
  }

  void find_first_keys(const QueryHead& mine, const Workspace& w) const {
    for (std::int64_t i = 0; positions != nullptr && i < mine.row_blocks() * side; ++i)
      w.first_keys[i] =
          static_cast<std::int32_t>(mine.first + i) - (i < mine.length ? positions[mine.positions + i] : 0);
  }

  void store(float* sums, const Head& head, float factor, Bits* to) const {
    float factors[side];
    std::fill(std::begin(factors), std::end(factors), factor);
    const bool scales = factor != 1;
    const std::int64_t dims = head.dim_blocks();
    for (std::int64_t block = 0; block < head.row_blocks(); ++block, sums += dims * block_size) {
      head.fetch(to, block + 1);
      if (scales) scale_rows(sums, dims, factors);
      for (std::int64_t d = 0; d < dims; ++d)
        write_block(sums + d * block_size, head.rows(block * side, side), head.columns(d),
                    head.target(to, block * side, d));
    }
  }

  void prepare(const QueryHead& mine, const Workspace& w) const {
    for (std::int64_t block = 0; block < mine.row_blocks(); ++block) {
      for (const Bits* x : {q, dout, o}) mine.fetch(x, block + 1);
      mine.pack_right_rows(q, block, w.q_rows);
      mine.pack_right_columns(q, block, w.q_columns);
      mine.pack_right_rows(dout, block, w.do_rows);
      mine.pack_right_columns(dout, block, w.do_columns);
      for (std::int64_t i = block * side; i < (block + 1) * side; ++i) {
        const std::int64_t row = mine.offset + i * mine.ld;
        const bool there = i < mine.length;
        w.lse[i] = there ? log2_e * lse[mine.lse + i] : -never;
        w.delta[i] = there ? dot(dout + row, o + row, shape.head_dim) : 0;
      }
    }
    clear(w.dq, mine);
  }

  void one_head(const QueryHead& mine, const Workspace& w) const {
    prepare(mine, w);
    const auto sees = [&](std::int64_t queries,
                          std::int64_t keys) {  // or all further ones are of later documents
      return positions == nullptr || w.first_keys[queries * side] < (keys + 1) * side;
    };
    for (std::int64_t keys = 0; keys < blocks_of(mine.first + mine.length); ++keys) {
      // The first block with a query that sees the first of the keys.
      const std::int64_t first = std::max<std::int64_t>(0, keys * side - mine.first) / side;
      for (std::int64_t queries = first; queries < mine.row_blocks() && sees(queries, keys);
           queries += chunk_blocks)
        keys_and_queries(mine, keys, queries, std::min(chunk_blocks, mine.row_blocks() - queries), w);
    }
    store(w.dq, mine, scale(), dq);
  }

  /// Adds what a block of keys and up to four blocks of queries give.
  void keys_and_queries(const QueryHead& mine, std::int64_t keys, std::int64_t queries, std::int64_t blocks,
                        const Workspace& w) const {
    const std::int64_t dims = mine.dim_blocks();
    alignas(64) float scores[chunk_blocks * block_size], dp[chunk_blocks * block_size];
    alignas(64) Chunk p, ds;
    const Left key = packed_left(w.k_left + keys * dims * step_size, dims);
    const Left value = packed_left(w.v_left + keys * dims * step_size, dims);
    // Elements from panel to panel.
    const std::int64_t across = dims * step_size, down = mine.row_blocks() * step_size,
                       down_keys = blocks_of(shape.seq) * step_size;
    multiply_panels(key, w.q_rows + queries * across, across, mine.dim, blocks, scores, false);
    multiply_panels(value, w.do_rows + queries * across, across, mine.dim, blocks, dp, false);
    score_gradients(scores, dp, blocks, mine.first + queries * side - keys * side,
                    positions == nullptr ? nullptr : w.first_keys + queries * side, keys * side,
                    scale() * log2_e, w.lse + queries * side, w.delta + queries * side, p, ds);
    const std::int64_t sums = keys * dims * block_size;
    multiply_panels(left_of(p), w.do_columns + queries * step_size, down, blocks * side, dims, w.dv + sums,
                    true);
    multiply_panels(left_of(ds), w.q_columns + queries * step_size, down, blocks * side, dims, w.dk + sums,
                    true);
    for (std::int64_t j = 0; j < blocks; ++j) {
      alignas(64) Bits turned[step_size];  // ds of 32 queries, ordered by keys
      for (int strip = 0; strip < 2; ++strip)
        left_from_columns({ds + j * side + strip * half, chunk, side, half}, turned + strip * tile_size);
      multiply_panels(packed_left(turned, 1), w.k_right + keys * step_size, down_keys, side, dims,
                      w.dq + (queries + j) * dims * block_size, true);
    }
  }
};

}  // namespace

void attention(Space& space, AttentionShape shape, const void* q, const void* k, const void* v, void* o,
               float* lse, void* scratch, const std::int32_t* positions) {
  const Forward forward{shape,
                        static_cast<const Bits*>(q),
                        static_cast<const Bits*>(k),
                        static_cast<const Bits*>(v),
                        static_cast<Bits*>(o),
                        lse,
                        static_cast<Bits*>(scratch),
                        positions};
  const std::int64_t query_blocks = shape.runs() * blocks_of(shape.queries());
  run_items(space, "weft::attention::pack", shape.batch * shape.kv_heads * blocks_of(shape.seen()),
            [forward](std::int64_t item) { forward.pack(item); });
  run_items(space, "weft::attention::forward", shape.batch * shape.heads * query_blocks,
            [forward](std::int64_t item) { forward.queries(item); });
}

std::size_t attention_scratch_bytes(AttentionShape s) {
  return aligned(static_cast<std::size_t>(s.batch * s.kv_heads * 2 * packed_elements(s, s.seq)) *
                 sizeof(Bits));
}

void attention_grad(Space& space, AttentionShape shape, const AttentionGrad& g) {
  run_items(space, "weft::attention::backward", shape.batch * shape.kv_heads,
            Backward{shape, static_cast<const Bits*>(g.q), static_cast<const Bits*>(g.k),
                     static_cast<const Bits*>(g.v), static_cast<const Bits*>(g.o), g.lse,
                     static_cast<const Bits*>(g.do_), static_cast<Bits*>(g.dq), static_cast<Bits*>(g.dk),
                     static_cast<Bits*>(g.dv), static_cast<std::byte*>(g.scratch), g.positions,
                     ItemSlots(shape.batch * shape.kv_heads)});
}

std::size_t attention_grad_scratch_bytes(AttentionShape shape) {
  return static_cast<std::size_t>(ItemSlots::count(shape.batch * shape.kv_heads)) * Workspace::bytes(shape);
}

}  // namespace weft::kernels::bf16_engine
