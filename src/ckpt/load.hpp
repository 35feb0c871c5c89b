// Loads a checkpoint into any number of ranks in any mode, whichever saved it. It works in host memory, and
// blocks. Errors are Error(bad_checkpoint) with one line.
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

/// What a directory of checkpoints holds, by the manifests alone: look_at_files() tells whether all files of
/// one are there.
struct Found {
  struct Checkpoint {
    std::string path;
    std::string origin;  ///< RunState::origin
  };
  std::vector<Checkpoint> checkpoints;  ///< those with a whole manifest, newest first
  /// A line for each of the others, also for those that were set aside. Leftovers of interrupted saves are in
  /// neither list.
  std::vector<std::string> damaged;
};
/// Reads every manifest, so call it on one rank only. Throws Unreadable when the directory or a manifest in
/// it cannot be read, because a read error is not a missing checkpoint.
Found find_checkpoints(const std::string& checkpoints_dir);
/// Whether there is any checkpoint, in whatever condition. It throws what find_checkpoints() throws, but
/// looks at names alone.
bool holds_checkpoints(const std::string& checkpoints_dir);
/// Renames a checkpoint that proved damaged, durably, so that it is not taken for a whole one, and returns
/// its new path. It is never removed.
std::string set_aside(const std::string& dir);
/// Gives a checkpoint that is called step-N.replaced since a save was interrupted its name back, durably,
/// unless there is another step-N. Returns its path, which is the same for any other checkpoint.
std::string give_name_back(const std::string& dir);
/// The newest checkpoint whose files are all there, if there is one; others are passed over with a warning in
/// the log.
std::optional<std::string> find_latest(const std::string& checkpoints_dir);

RunState load_run_state(const std::string& dir);

/// Throws Mismatch unless the checkpoint is of the model that `model_key` describes, naming the first key
/// that differs, with both values. Keys are "key = value" lines.
void check_model(const Manifest& manifest, std::string_view model_key);

/// Takes elements [at, at + count) of a slice that has no memory of its own.
using Put =
    std::function<void(const StateSlice& slice, std::int64_t at, std::int64_t count, const std::byte* data)>;

/// Collective: fills the slices, or gives the elements of those that have no memory to `put`, in parts.
/// Elements are matched by parameter path, so `units` may group the parameters in another way than the
/// checkpoint does. Rank 0 reads the descriptions of all shards and sends them on in blocks; each rank reads
/// and checks the slabs that overlap its slices. A rank takes at most loading_bytes() beside its slices.
/// Throws Mismatch for another model (a parameter is missing, or has another shape) and another dtype, and
/// Error(bad_checkpoint) for damage. Then all ranks end, but some of them without an error: call it through
/// comm::agree.
void load(const Manifest& manifest, const std::vector<Unit>& units, std::span<const StateSlice> slices,
          const Hooks& hooks, const Put& put = {});
/// Loads in the same way, in a run of one process.
void load(const Manifest& manifest, const std::vector<Unit>& units, std::span<const StateSlice> slices,
          const Put& put = {});
void load(const std::string& dir, const std::vector<Unit>& units, std::span<const StateSlice> slices);

/// Upper bound of what load() takes on a rank beside the slices, if as many ranks saved the checkpoint in the
/// newest format (of older ones, wo and w2 of slices without memory are collected on the host): the manifest,
/// blocks of descriptions, and a part of a slab. 64 MiB are enough for 16,384 ranks and 254 units.
std::int64_t loading_bytes(const std::vector<Unit>& units, int ranks);

/// Reads one parameter, whole and row-major (matrices as [out, in]), as fp32; the checkpoint may hold f32 or
/// bf16.
std::vector<float> load_parameter(const Manifest& manifest, const std::string& path,
                                  Role role = Role::master);
std::vector<float> load_parameter(const std::string& dir, const std::string& path, Role role = Role::master);

}  // namespace weft::ckpt
