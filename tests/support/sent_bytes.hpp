// What ranks send, as tests count it.
#pragma once

#include <cstdint>

#include "base/device.hpp"

namespace weft::test {

/// What a rank of `ranks` sends of an all-reduce that is short: on the host the whole of it to every other
/// one, and over NCCL as by a ring.
inline std::int64_t short_all_reduce_bytes(std::int64_t bytes, int ranks) {
  return device_is_host() ? bytes * (ranks - 1) : 2 * bytes * (ranks - 1) / ranks;
}

}  // namespace weft::test
