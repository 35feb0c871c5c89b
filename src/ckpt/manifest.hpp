// The manifest: which shard file holds which elements, with a checksum for every slab, and one for the
// manifest itself. It is written last, so that a directory with a whole manifest is a whole checkpoint; the
// loader goes by it alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/state.hpp"

namespace weft::ckpt {

inline constexpr int format_version = 1;
inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* index_name = "index.h5";

/// One dataset of a shard file: elements [begin, begin + count) of a state vector.
struct ShardSlice {
  Role role = Role::master;
  int unit = 0;  ///< index into Manifest::units
  DType dtype = DType::f32;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::vector<std::uint64_t> checksums;  ///< XXH3-64 of each slab, in order
};

struct Shard {
  std::string file;        ///< name inside the checkpoint's directory
  std::int64_t bytes = 0;  ///< of the file
  std::vector<ShardSlice> slices;

  std::int64_t state_bytes() const;
};

struct Manifest {
  std::string dir;  ///< where it was read from; not stored
  std::int64_t serial =
      0;  ///< counts the saves of a directory: newest is highest, also after a roll-back to an earlier step
  std::string saved_at;         ///< UTC, ISO 8601
  std::int64_t slab_bytes = 0;  ///< a checksum covers this many bytes of a dataset, the last one the rest
  RunState run;
  std::vector<Unit> units;
  std::int64_t index_bytes = 0;
  std::uint64_t index_checksum = 0;
  std::vector<Shard> shards;

  std::int64_t bytes() const;  ///< of state; files have headers beside it, and holes that alignment leaves
};

/// Reads and checks DIR/manifest.json. Throws Error(bad_checkpoint), one line: not a checkpoint, damaged,
/// newer format.
Manifest read_manifest(const std::string& dir);

namespace detail {

std::string to_text(const Manifest& manifest);
Manifest manifest_from_text(std::string_view text, const std::string& name);
/// A shard's description on its way from its rank to rank 0.
std::string to_text(const Shard& shard);
Shard shard_from_text(std::string_view text);

/// Throws Error(bad_checkpoint) unless the slices of every state vector cover each unit exactly once.
void check_coverage(const Manifest& manifest);
/// Throws Error(bad_checkpoint) that names the first file of the checkpoint that is missing or has another
/// size.
void check_files(const Manifest& manifest);

}  // namespace detail
}  // namespace weft::ckpt
