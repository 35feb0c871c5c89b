// The directory of a run's checkpoints, as it is: step-00000100/ ..., `latest`, what an interrupted save left
// behind (*.tmp), and what was damaged and set aside (*.damaged). publish.hpp changes it. A name without a
// suffix is only ever given to a whole checkpoint, and taken away before its files are removed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/state.hpp"

namespace weft::ckpt::detail {

/// unreadable: the system refused to read it, so that nobody knows whether it is whole. No run starts from it
/// and no save removes it; a save of the same step renames it to NAME.damaged, to have its place.
enum class Condition : std::uint8_t { whole, damaged, unreadable };

struct Entry {
  std::string name;  ///< "step-00000100"
  std::int64_t step = 0;
  Condition condition = Condition::whole;
  std::string problem;  ///< one line when it is not whole, else empty, and what follows is set
  std::int64_t serial = 0;
  std::int64_t bytes = 0;
  std::string saved_at;
  RunState run;
};

inline constexpr const char* latest_name = "latest";
inline constexpr const char* unfinished_suffix = ".tmp";
/// What was damaged and stood where a checkpoint had to go, or proved damaged when a run read it: evidence,
/// which Weft never removes. Further ones of the same step are NAME.damaged-2 and so on.
inline constexpr const char* damaged_suffix = ".damaged";
/// The earlier checkpoint of a step while a newer one takes its name, where the file system cannot exchange
/// two names at once. It is as good as any other.
inline constexpr const char* replaced_suffix = ".replaced";

std::string step_name(std::int64_t step);
/// The N of "step-N".
std::optional<std::int64_t> step_of(std::string_view name);
/// Names of all checkpoints, in whatever condition, and of those that were set aside. Throws as scan().
std::vector<std::string> checkpoint_names(const std::string& checkpoints_dir);
/// All checkpoints of the directory, newest first: by serial, then by step; those that are not whole, and
/// those that were set aside, come after them. Whole means that the manifest's checksum is right, and each
/// shard file is there with its size. Empty when there is no directory. Throws Unreadable when the directory
/// itself cannot be listed.
std::vector<Entry> scan(const std::string& checkpoints_dir);
/// Names of leftovers of interrupted saves. Throws as scan().
std::vector<std::string> unfinished(const std::string& checkpoints_dir);
/// What `latest` points to; empty when there is none.
std::string read_latest(const std::string& checkpoints_dir);

}  // namespace weft::ckpt::detail
