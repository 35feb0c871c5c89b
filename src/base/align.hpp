// The alignment of everything that shares one allocation.
#pragma once

namespace weft {

/// Rounds bytes up to 256: what CUDA's allocations begin at, and a multiple of every vector and cache line.
template <class Integer>
constexpr Integer aligned(Integer bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace weft
