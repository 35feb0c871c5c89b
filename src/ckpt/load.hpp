// Loading: any number of ranks in any mode reads a checkpoint of any other. Host memory only; blocks. Errors
// are Error(bad_checkpoint), one line.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/hooks.hpp"
#include "ckpt/manifest.hpp"
#include "ckpt/mismatch.hpp"
#include "ckpt/state.hpp"

namespace weft::ckpt {

/// What a directory of checkpoints holds. Whole: the manifest's checksum is right, and each shard has its
/// size.
struct Found {
  struct Whole {
    std::string path;
    std::string origin;  ///< RunState::origin
  };
  std::vector<Whole> whole;  ///< newest first
  /// A line for each of the others, those that were set aside too. What interrupted saves left counts
  /// nowhere.
  std::vector<std::string> damaged;
};
/// Touches every shard's metadata: call it on one rank. Throws Unreadable when the directory or a checkpoint
/// in it cannot be read: a read error is not a missing checkpoint.
Found find_checkpoints(const std::string& checkpoints_dir);
/// Whether there is any, in whatever condition. Throws as find_checkpoints(), but looks at names alone.
bool holds_checkpoints(const std::string& checkpoints_dir);
/// Renames a checkpoint that proved damaged, durably, so that it is not taken for a whole one, and returns
/// its new path. It is never removed.
std::string set_aside(const std::string& dir);
/// The newest whole one; the others are passed over with a warning in the log.
std::optional<std::string> find_latest(const std::string& checkpoints_dir);

RunState load_run_state(const std::string& dir);

/// Throws Mismatch unless the checkpoint is of the model that `model_key` describes, naming the first key
/// that differs, with both values. Keys are "key = value" lines.
void check_model(const Manifest& manifest, std::string_view model_key);

/// Takes elements [at, at + count) of a slice that has no memory.
using Put =
    std::function<void(const StateSlice& slice, std::int64_t at, std::int64_t count, const std::byte* data)>;

/// Collective: fills the slices, or gives the elements of those that have no memory to `put`, in parts.
/// Elements are matched by parameter path, so `units` may group the parameters in another way than the
/// checkpoint does. Rank 0 reads the descriptions of all shards and sends them on in blocks; each rank reads
/// and checks the slabs that overlap its slices. Beside the slices it takes loading_bytes() at most. Throws
/// Mismatch for another model (a parameter is missing, or has another shape) and another dtype,
/// Error(bad_checkpoint) for damage; then all ranks end, but some without an error: call it through
/// train::agree.
void load(const Manifest& manifest, const std::vector<Unit>& units, std::span<const StateSlice> slices,
          const Hooks& hooks, const Put& put = {});
/// The same in one process.
void load(const Manifest& manifest, const std::vector<Unit>& units, std::span<const StateSlice> slices,
          const Put& put = {});
void load(const std::string& dir, const std::vector<Unit>& units, std::span<const StateSlice> slices);

/// Upper bound of what load() takes on a rank beside the slices, where as many ranks saved: the manifest,
/// blocks of descriptions, and a part of a slab. 64 MiB are enough for 16,384 ranks and 254 units.
std::int64_t loading_bytes(const std::vector<Unit>& units, int ranks);

/// One parameter, whole, row-major, as fp32 (f32 and bf16 checkpoints).
std::vector<float> load_parameter(const Manifest& manifest, const std::string& path,
                                  Role role = Role::master);
std::vector<float> load_parameter(const std::string& dir, const std::string& path, Role role = Role::master);

}  // namespace weft::ckpt
