// The manifest says what a checkpoint holds, lists its files with their sizes, and has checksums of the texts
// beside it. It is written last, so a directory with a whole manifest is a whole checkpoint. It stays small:
// slices.jsonl says which elements stand where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/hooks.hpp"
#include "ckpt/state.hpp"
#include "io/file.hpp"

namespace weft::ckpt {

inline constexpr int format_version = 3;
inline constexpr const char* manifest_name = "manifest.json";
inline constexpr const char* slices_name = "slices.jsonl";
inline constexpr const char* index_name = "index.h5";

/// What the manifest stores of a text file beside it: its size and its checksum.
struct Digest {
  std::int64_t bytes = 0;
  std::uint64_t checksum = 0;  ///< XXH3-64 of the whole text
};

struct StoredFile {
  std::string name;  ///< inside the checkpoint's directory
  std::int64_t bytes = 0;
};

struct Manifest {
  /// Where it was read from, without the links that the path's last component led through; not stored.
  std::string dir;
  /// Whether look_at_files() has found all files; not stored. What proves missing or short after that is no
  /// damage: it is Unreadable.
  bool files_seen = false;
  int version = format_version;
  /// Grows with each save of a directory (milliseconds since 1970, or one more than the highest): the newest
  /// checkpoint has the highest, also after a roll-back to an earlier step.
  std::int64_t serial = 0;
  std::string saved_at;         ///< UTC, ISO 8601
  std::int64_t slab_bytes = 0;  ///< a checksum covers this many bytes of a dataset, the last one the rest
  RunState run;
  std::vector<Unit> units;
  std::vector<StoredFile> files;  ///< the shards, in the order of their descriptions
  /// Bytes of state of all ranks; the files also have headers and unused space.
  std::int64_t state_bytes = 0;
  Digest slices;                ///< slices.jsonl; format 1 has the descriptions in the manifest
  std::optional<Digest> index;  ///< index.h5; a checkpoint of very many slices has none

  std::int64_t bytes() const { return state_bytes; }
};

/// Follows the links that the last component of a path leads through, such as `latest`, so that what is
/// opened below the result later is of the same checkpoint, wherever the link points by then. The components
/// before it stay as they are, because other hosts may have other links there.
std::string without_links(const std::string& path);
/// Looks at what a user has named as a checkpoint. Throws Error(bad_input) where nothing is there, and, with
/// the path that was meant, where it is a run's directory or its `checkpoints`. The message begins with
/// `place`. What else is no checkpoint is told by read_manifest().
void check_named(const std::string& path, const std::string& place = {});
/// Reads and checks DIR/manifest.json. Throws Error(bad_checkpoint) with one line when there is no
/// checkpoint, or it is damaged or of a newer format.
Manifest read_manifest(const std::string& dir);
/// Collective: rank 0 follows the links and reads the manifest. All ranks get it or throw the same error.
Manifest read_manifest(const std::string& dir, const Hooks& hooks);

namespace detail {

/// The text of manifest.json; always of the newest format.
std::string to_text(const Manifest& manifest);
/// Reads a manifest's text, of any format; `name` stands for the file in messages. Throws
/// Error(bad_checkpoint).
Manifest manifest_from_text(std::string_view text, const std::string& name);

}  // namespace detail
}  // namespace weft::ckpt
