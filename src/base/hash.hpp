// 64-bit hashes (XXH3) for plans, state and checkpoint slabs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

struct XXH3_state_s;

namespace weft {

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0);
inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}

/// Hashes bytes that come in parts: the result equals hash_bytes of all of them together, with seed 0.
class HashStream {
 public:
  HashStream();
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const;

 private:
  struct Release {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Release> state_;
};

}  // namespace weft
