// The directory of a run's checkpoints: step-00000100/ ..., `latest`, and what an interrupted save left
// behind (*.tmp). A name without .tmp is only ever given to a whole checkpoint, and taken away before its
// files are removed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/state.hpp"

namespace weft::ckpt::detail {

struct Entry {
  std::string name;  ///< "step-00000100"
  std::int64_t step = 0;
  std::string problem;  ///< one line when it is not whole, else empty, and what follows is set
  std::int64_t serial = 0;
  std::int64_t bytes = 0;
  std::string saved_at;
  RunState run;
};

inline constexpr const char* latest_name = "latest";
inline constexpr const char* unfinished_suffix = ".tmp";

std::string step_name(std::int64_t step);
/// The N of "step-N".
std::optional<std::int64_t> step_of(std::string_view name);
/// Makes the entry of a directory durable, and those of all above it that may be opened.
void sync_ancestors(const std::string& dir);
/// All step-N of the directory, newest first: by serial, then by step; those that are not whole come after
/// them. Whole means that the manifest's checksum is right, and each shard file is there with its size. Empty
/// when there is no directory.
std::vector<Entry> scan(const std::string& checkpoints_dir);
/// Names of leftovers of interrupted saves.
std::vector<std::string> unfinished(const std::string& checkpoints_dir);
void remove_unfinished(const std::string& checkpoints_dir);
/// What `latest` points to; empty when there is none.
std::string read_latest(const std::string& checkpoints_dir);
/// Points the symbolic link `latest` to a checkpoint, atomically.
void move_latest(const std::string& checkpoints_dir, const std::string& name);
/// Gives DIR/NAME.tmp its name, durably; a checkpoint of the same step that stands there is replaced in one
/// atomic exchange where the file system can do that.
void publish(const std::string& checkpoints_dir, const std::string& name);
/// Hides a checkpoint, then removes its files.
void remove_checkpoint(const std::string& checkpoints_dir, const std::string& name);

}  // namespace weft::ckpt::detail
