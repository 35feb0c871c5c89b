// What one shard file holds, and its description as a line of slices.jsonl: which elements stand where, with
// a checksum for every slab, and one for each part of HDF5's own headers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/state.hpp"

namespace weft::ckpt {

struct Manifest;

/// One dataset of a shard file: elements [begin, begin + count) of a state vector.
struct ShardSlice {
  Role role = Role::master;
  int unit = 0;  ///< index into Manifest::units
  DType dtype = DType::f32;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t offset = 0;               ///< offset of its first byte in the file; format 1 does not store it
  std::vector<std::uint64_t> checksums;  ///< XXH3-64 of each slab, in order

  std::int64_t bytes() const { return count * static_cast<std::int64_t>(size_of(dtype)); }
};

/// A stretch of a shard file that HDF5 wrote outside of the datasets.
struct HeaderPart {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::uint64_t checksum = 0;
};

/// One shard file. Each of its bytes belongs to a slice or to a header part, or is 0.
struct Shard {
  std::string file;        ///< name inside the checkpoint's directory
  std::int64_t bytes = 0;  ///< size of the file
  std::vector<HeaderPart> header;
  std::vector<ShardSlice> slices;

  std::int64_t state_bytes() const;
};

namespace detail {

/// The most bytes that a shard's description may have: enough for 10 TiB of state on a rank.
inline constexpr std::size_t most_line_bytes = std::size_t{4} << 20;

/// The description as one line of JSON without white space, and without the line's end.
std::string to_line(const Shard& shard);
/// Reads what to_line prints, and nothing else that JSON would allow. Throws Error(bad_checkpoint).
Shard shard_from_line(std::string_view line);

/// Whether the name can only mean a file in the checkpoint's own directory.
bool is_plain_name(std::string_view name);

/// Checks what a reader relies on. Throws Error(bad_checkpoint) unless the shard is the manifest's number
/// `index`, its slices are within their units, have a checksum for each slab, and stand in the file without
/// overlaps.
void check_shard(const Shard& shard, const Manifest& manifest, std::size_t index);

}  // namespace detail
}  // namespace weft::ckpt
