// 64-bit hashes (XXH3) for plans, state and checkpoint slabs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0);
inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}

}  // namespace weft
