#include "base/hash.hpp"

#include <xxhash.h>

#include <new>

namespace weft {

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

void HashStream::Release::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

HashStream::HashStream() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

void HashStream::add(const void* data, std::size_t bytes) {
  XXH3_64bits_update(state_.get(), data, bytes);
}

std::uint64_t HashStream::value() const {
  return XXH3_64bits_digest(state_.get());
}

}  // namespace weft
