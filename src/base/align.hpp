// The alignment of everything that shares one allocation: 256 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

/// Rounds bytes up to a multiple of 256, which is also one of every vector and cache line. CUDA's allocations
/// begin at such addresses.
template <class Integer>
constexpr Integer aligned(Integer bytes) {
  return (bytes + 255) / 256 * 256;
}

/// The first address from `p` on that is a multiple of 256.
inline std::byte* aligned(std::byte* p) {
  return p + (256 - reinterpret_cast<std::uintptr_t>(p) % 256) % 256;
}

}  // namespace weft
