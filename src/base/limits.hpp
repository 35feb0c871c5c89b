// How large sizes may be. A kernel or a table that holds no more takes its bound from here, and the deck's
// checks (deck/limits.cpp) refuse what is larger with the same number, before a run begins.
#pragma once

#include <cstdint>
#include <limits>

#include "base/exact_sum.hpp"
#include "base/unit.hpp"

namespace weft::limits {

/// MKL, launches on a device, and lists of rows count in signed 32 bits.
inline constexpr std::int64_t most_indices = std::numeric_limits<std::int32_t>::max();

/// Attention's kernels keep the rows of a head in registers, tiles and a device's shared memory.
inline constexpr std::int64_t most_head_dim = 256;

/// On a device, attention launches a team of threads for every 16 queries of a head, and at most most_indices
/// of them.
inline constexpr std::int64_t attention_queries = 16;

/// The gradient norm of a unit is one exact sum, which takes at most this many elements before it carries.
inline constexpr std::int64_t most_unit_elements = exact_additions * shard_granularity;

/// Nodes and values of a graph are numbered in 32 bits. One layer in one accumulation round, with its
/// backward, has fewer than 256 of them.
inline constexpr std::int64_t most_layer_rounds = most_indices / 256;

/// Bytes, and elements over all ranks, are counted in 63 bits. This bound is for the values of one rank's
/// microbatch, which deck/limits.cpp counts generously. It leaves room for 2^17 ranks and for what a plan
/// adds up.
inline constexpr double most_microbatch_bytes = 0x1p52;

}  // namespace weft::limits
