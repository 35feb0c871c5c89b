// Hashes sharded state in a way that does not depend on how it is cut.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// The sum mod 2^64 of XXH3 over every 256-element chunk of `data` [n], which is HOST memory. Each is seeded
/// with `seed` and the chunk's index in the whole buffer: `first_chunk_index` + its place here. Only the
/// first `valid_elements` count (clamped to [0, n]), so padding does not. Slices cut at multiples of 256
/// elements add up to the hash of the whole. It runs on the host's threads.
std::uint64_t state_hash(Space& space, std::int64_t n, const void* data, DType t,
                         std::int64_t first_chunk_index, std::int64_t valid_elements, std::uint64_t seed);

}  // namespace weft::kernels
