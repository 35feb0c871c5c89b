#include "kernels/bf16_engine/split_product.hpp"

#include <algorithm>

#include "base/align.hpp"
#include "kernels/bf16_engine/result.hpp"
#include "kernels/bf16_engine/stored.hpp"
#include "kernels/items.hpp"

namespace weft::kernels::bf16_engine {
namespace {

/// For how many steps of k sums are made at a time, and how many panels of the right operand are then read
/// for all of an item's rows: 1.1 MiB, which stay in the second-level cache.
constexpr std::int64_t part_steps = 16, most_chunk_panels = 12;
/// The most rows of an item: so many that splitting the right operand for each item costs little.
constexpr std::int64_t most_item_rows = 2048;
constexpr std::int64_t left_step = pieces * tile_size,
                       right_step = pieces * step_size;  ///< elements of a strip's step, and of a panel's

/// Decides how c is cut into items of blocks of 32 rows and panels of 32 columns. An item splits its rows of
/// the left operand and its panels of the right one, a part of k at a time.
struct Cut : Grid {
  std::int64_t steps;  ///< the most steps of a part of k

  Cut(const MatmulSizes& s, std::int64_t threads)
      : Grid{blocks_of(s.m), blocks_of(s.n)}, steps(ceil_div(blocks_of(s.k), parts(s))) {
    rows = ceil_div(rows, ceil_div(rows * side, most_item_rows));
    while (items(s) < threads && (rows > 1 || panels > 1)) {
      std::int64_t& larger = panels == 1 || (rows > 1 && rows > panels) ? rows : panels;
      larger = ceil_div(larger, 2);
    }
  }
  static std::int64_t parts(const MatmulSizes& s) { return ceil_div(blocks_of(s.k), part_steps); }
  std::int64_t left_size() const { return rows * 2 * steps * left_step; }
  /// The most panels of a chunk; all chunks have about the same width.
  std::int64_t chunk_panels() const { return ceil_div(panels, ceil_div(panels, most_chunk_panels)); }
  std::int64_t chunk_size() const { return chunk_panels() * steps * right_step; }
  /// Bytes that a thread needs: for its rows of the left operand and a chunk of the right one, both of a part
  /// of k.
  std::size_t slot_bytes() const {
    return aligned(static_cast<std::size_t>(left_size() + chunk_size()) * sizeof(Bits));
  }
};

/// Computes the product, one item of c at a time.
struct Multiplication {
  MatmulSizes sizes;
  Cut cut;
  Stored<float> left, right;
  Target target;
  bool transposed;  ///< whether the target is [n, m]
  std::byte* slots_data;
  ThreadSlots slots;

  void operator()(std::int64_t item) const {
    const auto slot = slots.acquire();
    auto* const rows_packed =
        reinterpret_cast<Bits*>(slots_data + static_cast<std::size_t>(slot) * cut.slot_bytes());
    Bits* const chunk = rows_packed + cut.left_size();
    const Region region = cut.region(sizes, item);
    const std::int64_t last_panel = region.panel + region.panels;
    const std::int64_t parts = Cut::parts(sizes), steps = blocks_of(sizes.k);
    const std::int64_t chunk_panels = cut.chunk_panels();
    const TileScope scope;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = steps * part / parts, count = steps * (part + 1) / parts - first;
      Target to = target;
      to.add = target.add || part > 0;
      for (std::int64_t panel = region.panel; panel < last_panel; panel += chunk_panels) {
        const std::int64_t panels = std::min(chunk_panels, last_panel - panel);
        right.walk(panels, count, [&](std::int64_t p, std::int64_t s) {
          for (int h = 0; h < 2; ++h)
            right.pack_right(2 * (panel + p) + h, first + s,
                             chunk + (p * count + s) * right_step + h * tile_size);
        });
        for (std::int64_t i = 0; i < region.rows; ++i) {
          if (panel == region.panel)
            left.walk(2, count, [&](std::int64_t strip, std::int64_t s) {
              left.pack_left(2 * (region.row + i) + strip, first + s,
                             rows_packed + ((2 * i + strip) * count + s) * left_step);
            });
          const Left block{rows_packed + 2 * i * count * left_step, side, count * left_step, left_step};
          for (std::int64_t j = 0; j < panels; ++j) {
            alignas(64) float sums[block_size];
            multiply_pieces(block, chunk + j * count * right_step, count, sizes.m - (region.row + i) * side,
                            sums);
            write_result(sizes, region.row + i, panel + j, sums, to, transposed);
          }
        }
      }
    }
    slots.release(slot);
  }
};

}  // namespace

SplitProduct::SplitProduct(const MatmulSizes& sizes, bool add)
    : sizes_(sizes), add_(add), swapped_(swap_operands(sizes_)) {}

std::size_t SplitProduct::scratch_bytes() const {
  const int threads = concurrency();
  return static_cast<std::size_t>(threads) * Cut(sizes_, threads).slot_bytes();
}

void SplitProduct::run(Space& space, const float* a, const float* b, float* c, void* scratch) const {
  const MatmulSizes& s = sizes_;
  const Multiplication product{s,
                               Cut(s, concurrency()),
                               {swapped_ ? b : a, s.m, s.k, !s.a_transposed},
                               {swapped_ ? a : b, s.n, s.k, s.b_transposed},
                               {c, swapped_ ? s.m : s.n, DType::f32, add_},
                               swapped_,
                               static_cast<std::byte*>(scratch),
                               {}};
  run_items(space, "weft::matmul::split_product", product.cut.items(s), product);
}

}  // namespace weft::kernels::bf16_engine
