// Choices that the deck offers and that other folders act on. The deck's spelling of them is in
// deck/choices.cpp.
#pragma once

#include <cstdint>

namespace weft {

/// What is cut over the data axis. passes::shard says what each mode does.
enum class ShardMode : std::uint8_t { ddp, zero1, zero2, fsdp };

/// The order in which a reduction adds. `canonical`: in rank order, with the same bits for any back end.
/// `native`: the library's own order, which for host back ends is canonical.
enum class ReduceOrder : std::uint8_t { canonical, native };

/// What of the forward is computed again in backward. `budget`: so much that the step fits into the memory
/// limit; a run that says so chooses one of the others before its graph is made.
enum class Recompute : std::uint8_t { none, full, selective, budget };

/// When the gradients of a step's rounds are reduced over the ranks.
enum class Accumulation : std::uint8_t {
  each,  ///< gradients are reduced in every round, so that only shards need memory
  once   ///< rounds are summed on the rank, and reduced at the end: the sum has another order
};

/// The format of gradients in Float8. e4m3 has one more bit of mantissa, e5m2 one more of exponent.
enum class GradientFormat : std::uint8_t { e4m3, e5m2 };
/// What of activations and their gradients has one scale in Float8.
enum class Float8Scales : std::uint8_t {
  rowwise,    ///< each row
  tensorwise  ///< all rows of a microbatch that a rank has
};

/// Whether runs of a plan may be replays of a CUDA graph.
enum class CudaGraph : std::uint8_t { automatic, off };

}  // namespace weft
