#include "kernels/bf16_engine/product.hpp"

#include <algorithm>

#include "base/align.hpp"
#include "kernels/bf16_engine/result.hpp"
#include "kernels/bf16_engine/stored.hpp"
#include "kernels/items.hpp"

namespace weft::kernels::bf16_engine {
namespace {

/// How many steps of k are packed at a time: few enough for a chunk to have panels for which a slab is read
/// often.
constexpr std::int64_t part_steps = 64;

/// What is kept in the caches, by kind of engine (docs/kernels.md). No sum depends on it.
struct Caches {
  /// For how many steps of k a block of the left operand is read for all panels. Longer sums are kept in
  /// memory between two slabs of k.
  std::int64_t slab_steps;
  /// Steps times panels of the right operand that an item packs, and reads again for all its rows: as much of
  /// them as stays in the second-level cache.
  std::int64_t chunk_steps;
};
/// Tiles are so fast that a slab (32 KiB) must stay in the first-level cache, and are found beside second
/// ones of 2 MiB. Dot products get along with the second one, which is of 1 MiB where there are no tiles, so
/// they need not keep sums in memory.
Caches caches() {
  return kind() == Kind::tiles ? Caches{half, 512} : Caches{part_steps, 256};  // Ahead counts on `half`, too
}
constexpr std::int64_t most_item_rows = 2048;

/// Packs all of the left operand.
void pack_left(Space& space, const Stored<Bits>& x, Bits* packed) {
  const auto pack = [=](std::int64_t strip, std::int64_t step) {
    x.pack_left(strip, step, packed + (strip * x.steps() + step) * tile_size);
  };
  // Memory is read along its rows.
  if (x.along_k)
    run_items(space, "weft::matmul::pack", 2 * blocks_of(x.lines), [=](std::int64_t strip) {
      for (std::int64_t step = 0; step < x.steps(); ++step) pack(strip, step);
    });
  else
    run_items(space, "weft::matmul::pack", x.steps(), [=](std::int64_t step) {
      for (std::int64_t strip = 0; strip < 2 * blocks_of(x.lines); ++strip) pack(strip, step);
    });
}

/// Packs some panels and steps of the right operand.
void pack_right(const Stored<Bits>& x, std::int64_t panel, std::int64_t panels, std::int64_t step,
                std::int64_t steps, Bits* packed) {
  x.walk(panels, steps, [&](std::int64_t p, std::int64_t s) {
    for (int h = 0; h < 2; ++h)
      x.pack_right(2 * (panel + p) + h, step + s, packed + ((p * steps + s) * 2 + h) * tile_size);
  });
}

/// Decides how c is cut into items of blocks of 32 rows and panels of 32 columns.
struct Cut : Grid {
  std::int64_t parts;  ///< parts that k is cut into

  Cut(const MatmulSizes& s, std::int64_t threads) : parts(ceil_div(blocks_of(s.k), part_steps)) {
    // Chunks have about the same width, because a small last one would cost a reading of the left operand,
    // too.
    const std::int64_t most = caches().chunk_steps / ceil_div(blocks_of(s.k), parts);
    panels = ceil_div(blocks_of(s.n), ceil_div(blocks_of(s.n), most));
    rows = std::min(blocks_of(s.m), most_item_rows / side);
    while (items(s) < threads && (rows > 1 || panels > 1)) {
      // It takes rather more rows than columns, because a chunk is packed for its rows.
      std::int64_t& larger = panels == 1 || (rows > 1 && rows > 2 * panels) ? rows : panels;
      larger = ceil_div(larger, 2);
    }
  }
  std::size_t chunk_bytes() const {
    return static_cast<std::size_t>(caches().chunk_steps * step_size) * sizeof(Bits);
  }
  /// How many blocks of sums wait for the next slab: a row of them, and all of them where k has parts.
  std::int64_t sums(const MatmulSizes& s) const {
    if (parts > 1) return rows * panels;
    return blocks_of(s.k) > caches().slab_steps ? panels : 1;
  }
  /// Bytes that a thread needs: for a chunk and for sums.
  std::size_t slot_bytes(const MatmulSizes& s) const {
    return aligned(chunk_bytes() + static_cast<std::size_t>(sums(s) * block_size) * sizeof(float));
  }
};

/// Computes the product, one item of c at a time.
struct Multiplication {
  MatmulSizes sizes;
  Cut cut;
  const Bits* left;
  bool left_packed;
  Stored<Bits> right;
  Target target;
  bool transposed;  ///< whether the target is [n, m]
  std::byte* slots_data;
  ThreadSlots slots;

  void operator()(std::int64_t item) const {
    const auto slot = slots.acquire();
    std::byte* const memory = slots_data + static_cast<std::size_t>(slot) * cut.slot_bytes(sizes);
    const Region region = cut.region(sizes, item);
    const std::int64_t row = region.row, panel = region.panel, rows = region.rows, panels = region.panels;
    const std::int64_t steps = blocks_of(sizes.k), slab_steps = caches().slab_steps;
    auto* const chunk = reinterpret_cast<Bits*>(memory);
    auto* const sums = reinterpret_cast<float*>(memory + cut.chunk_bytes());
    const bool one_block = cut.sums(sizes) == 1;
    const TileScope scope;
    for (std::int64_t part = 0; part < cut.parts; ++part) {
      const std::int64_t first = steps * part / cut.parts, last = steps * (part + 1) / cut.parts;
      pack_right(right, panel, panels, first, last - first, chunk);
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t slab = first; slab < last; slab += slab_steps) {
          const std::int64_t count = std::min(slab_steps, last - slab);
          alignas(64) Bits edge[part_steps * step_size];
          const Left block = left_block(row + i, slab, count, edge);
          Ahead ahead = after(row + i, slab, first, last, i + 1 < rows);
          while (ahead.lines > 0 && ahead.lines < half && ahead.lines * count * panels < side * half)
            ahead.lines *= 2;
          float* to = sums + (cut.parts > 1 ? i * panels * block_size : 0);
          for (std::int64_t j = 0; j < panels; ++j, to += one_block ? 0 : block_size) {
            const Bits* const from = chunk + (j * (last - first) + slab - first) * step_size;
            const Extent extent{std::min(count * side, sizes.k - slab * side), sizes.m - (row + i) * side,
                                sizes.n - (panel + j) * side};
            multiply(block, from, extent, to, slab > 0, ahead);
            ahead.first += count * ahead.lines;
            if (slab + count == steps) write_result(sizes, row + i, panel + j, to, target, transposed);
          }
        }
    }
    slots.release(slot);
  }

  /// 32 rows of the left operand from a step on, as they lie in memory.
  Left left_at(std::int64_t row, std::int64_t first) const {
    const std::int64_t steps = blocks_of(sizes.k);
    if (!left_packed) return {left + row * side * sizes.k + first * side, sizes.k, half * sizes.k, side};
    Left block = packed_left(left + row * steps * step_size, steps);
    block.data += first * tile_size;
    return block;
  }

  /// The slab of 16 steps that follows the one from `slab` on, in the part from `first` to `last`: another
  /// slab of the same rows, or the first one of the next rows. Dot products fetch nothing ahead.
  Ahead after(std::int64_t row, std::int64_t slab, std::int64_t first, std::int64_t last, bool more) const {
    if (kind() != Kind::tiles) return {};
    if (slab + half < last) return {left_at(row, slab + half), 0, 1};
    return more ? Ahead{left_at(row + 1, first), 0, 1} : Ahead{};
  }

  /// A block of the left operand. Rows that are not packed, and end within the block, are copied to `edge`,
  /// because nothing behind them may be read.
  Left left_block(std::int64_t row, std::int64_t first, std::int64_t count, Bits* edge) const {
    if (left_packed || (row + 1) * side <= sizes.m) return left_at(row, first);
    const Stored<Bits> rows{left, sizes.m, sizes.k, true};
    for (std::int64_t strip = 0; strip < 2; ++strip)
      for (std::int64_t step = 0; step < count; ++step)
        rows.pack_left(2 * row + strip, first + step, edge + (strip * count + step) * tile_size);
    return packed_left(edge, count);
  }
};

}  // namespace

Product::Product(const MatmulSizes& sizes, DType result, bool add)
    : sizes_(sizes), result_(result), add_(add), swapped_(swap_operands(sizes_)) {}

bool Product::packs_left() const {
  return sizes_.a_transposed || sizes_.k % side != 0;
}

std::size_t Product::left_bytes() const {
  if (!packs_left()) return 0;
  return aligned(static_cast<std::size_t>(blocks_of(sizes_.m) * blocks_of(sizes_.k) * step_size) *
                 sizeof(Bits));
}

std::size_t Product::scratch_bytes() const {
  const int threads = concurrency();
  return left_bytes() + static_cast<std::size_t>(threads) * Cut(sizes_, threads).slot_bytes(sizes_);
}

void Product::run(Space& space, const void* a, const void* b, void* c, void* scratch) const {
  const MatmulSizes& s = sizes_;
  const auto* left = static_cast<const Bits*>(swapped_ ? b : a);
  const auto* const right = static_cast<const Bits*>(swapped_ ? a : b);
  if (packs_left()) {
    auto* const packed = static_cast<Bits*>(scratch);
    pack_left(space, {left, s.m, s.k, !s.a_transposed}, packed);
    left = packed;
  }
  const Multiplication product{s,
                               Cut(s, concurrency()),
                               left,
                               packs_left(),
                               {right, s.n, s.k, s.b_transposed},
                               {c, swapped_ ? s.m : s.n, result_, add_},
                               swapped_,
                               static_cast<std::byte*>(scratch) + left_bytes(),
                               {}};
  run_items(space, "weft::matmul::product", product.cut.items(s), product);
}

}  // namespace weft::kernels::bf16_engine
