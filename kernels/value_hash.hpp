// Hashes the bits of a value. The hash depends neither on the order of its elements nor on how they are cut
// over ranks.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// The sum mod 2^64, over the elements of `data` [n] on the device, of a mix of `seed`, the element's index
/// in the whole value (`first` + its place here) and its bits. The parts of a value add up to the hash of the
/// whole. It runs on `space` after what is enqueued there, and the host waits for it.
std::uint64_t value_hash(Space& space, std::int64_t n, const void* data, DType t, std::int64_t first,
                         std::uint64_t seed);

}  // namespace weft::kernels
