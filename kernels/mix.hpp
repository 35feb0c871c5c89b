// Internal: the bit mixer of the kernels that hash.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"

namespace weft::kernels {

/// Mixes the bits of x by SplitMix64's finaliser: neighbouring numbers get unrelated bits.
WEFT_FUNCTION std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace weft::kernels
