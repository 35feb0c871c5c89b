// Reads the directory of a run's checkpoints as it is: step-00000100/ ..., `latest`, what an interrupted save
// left behind (*.tmp), and what was damaged and set aside (*.damaged). publish.hpp changes it. A name without
// a suffix is only ever given to a whole checkpoint, and taken away before its files are removed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/state.hpp"

namespace weft::ckpt::detail {

/// The condition of a checkpoint. `unreadable` means that the system refused to read it, or that it is of a
/// newer format, so that nobody knows whether it is whole: no run starts from it, and no save removes it.
enum class Condition : std::uint8_t { whole, damaged, unreadable };

/// How far a look at a checkpoint goes: to its manifest alone, or on to whether each file that the manifest
/// names is there with its size, which asks storage once for each rank that saved.
enum class Look : std::uint8_t { at_manifest, at_files };

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
/// The suffix of a checkpoint that is damaged: one that stood where a new checkpoint had to go, or that
/// proved damaged when a run read it. It is evidence, which Weft never removes. Further ones of the same step
/// are NAME.damaged-2 and so on.
inline constexpr const char* damaged_suffix = ".damaged";
/// The suffix of a checkpoint that was set aside because it could not be read. It may be whole.
inline constexpr const char* unreadable_suffix = ".unreadable";
/// The suffix of the earlier checkpoint of a step while a newer one takes its name, where the file system
/// cannot exchange two names at once. It is as good as any other checkpoint.
inline constexpr const char* replaced_suffix = ".replaced";

std::string step_name(std::int64_t step);
/// The N of a name "step-N"; nothing for any other name.
std::optional<std::int64_t> step_of(std::string_view name);
/// The name without what follows its step: "step-00000100" of "step-00000100.damaged-2".
std::string_view without_suffix(std::string_view name);
/// Names of all checkpoints, in whatever condition, and of those that were set aside. Throws what scan()
/// throws.
std::vector<std::string> checkpoint_names(const std::string& checkpoints_dir);
/// Looks at one of checkpoint_names(), as it is now. Whole means that the manifest's checksum is right, and
/// with Look::at_files that each file is there with its size.
Entry look_at(const std::string& checkpoints_dir, const std::string& name, Look look);
/// Whether the checkpoint of that name is whole as it is now, with all its files.
bool is_whole(const std::string& checkpoints_dir, const std::string& name);
/// All checkpoints of the directory, newest first: by serial, then by step. Those that are not whole, and
/// those that were set aside, come after the others. The list is empty when there is no directory. Throws
/// Unreadable when the directory itself cannot be listed.
std::vector<Entry> scan(const std::string& checkpoints_dir, Look look);
/// Names of leftovers of interrupted saves. Throws what scan() throws.
std::vector<std::string> unfinished(const std::string& checkpoints_dir);
/// What `latest` points to; empty when there is none.
std::string read_latest(const std::string& checkpoints_dir);

}  // namespace weft::ckpt::detail
