// Reads any elements of a checkpoint's state vectors from whatever shards hold them, and checks every slab it
// touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ckpt/manifest.hpp"

namespace weft::ckpt::detail {

/// Elements [begin, begin + count) of a state vector of manifest.units[unit], to be written to `out`.
struct Request {
  Role role = Role::master;
  int unit = 0;
  DType dtype = DType::f32;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::byte* out = nullptr;
};

/// Fulfils all requests; reads each slab that overlaps them, and opens only the shards that hold these. Holds
/// at most one slab besides the requests' own memory. Throws Error(bad_checkpoint) that names file, state and
/// unit.
void fetch(const Manifest& manifest, const std::vector<Request>& requests);

/// The element type a state vector is stored in; f32 when the checkpoint doesn't hold it (fetch then says
/// so).
DType dtype_of(const Manifest& manifest, Role role, int unit);

/// Every problem of one shard: missing, truncated, header damaged, slabs whose checksum does not match. Its
/// pages are dropped from the page cache first, and with `direct_io` slabs are read without it.
std::vector<std::string> find_damage(const Manifest& manifest, const Shard& shard, bool direct_io);

}  // namespace weft::ckpt::detail
