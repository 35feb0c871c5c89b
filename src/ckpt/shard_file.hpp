// Writes a shard file: HDF5 with one contiguous dataset /<role>/<unit> for each slice. HDF5 lays the file out
// and says where a dataset stands; the bytes themselves are moved by plain reads and writes at that place,
// slab by slab.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/shard.hpp"

namespace weft::ckpt::detail {

std::string shard_name(int rank);
/// The name of a dataset: "/master/layers.3.attn".
std::string dataset_name(Role role, const std::string& unit);

struct ShardFileOptions {
  std::int64_t slab_bytes;
  std::int64_t alignment;
  bool direct_io;
};

/// Writes the non-empty slices to PATH, fsyncs it, and returns its description; checksums are taken from
/// memory before the bytes are written. `units` gives the slices' unit indices.
Shard write_shard(const std::string& path, std::span<const StateSlice> slices, const std::vector<Unit>& units,
                  const ShardFileOptions& options);

}  // namespace weft::ckpt::detail
