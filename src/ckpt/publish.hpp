// Changes the directory of checkpoints. Each change is a rename, so that at any moment all names without a
// suffix are whole checkpoints. Errors have the path and the system's reason: Error(environment), and
// Unreadable for what cannot be looked at.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ckpt/directory.hpp"

namespace weft::ckpt::detail {

/// Removes a file or a directory with all below it; returns one line when something stays.
std::string remove_all(const std::string& path);

/// Makes a directory's entry in its parent durable, and those of the parents above it, up to the first that
/// may not be opened.
void sync_ancestors(const std::string& dir);

/// Makes CHECKPOINTS_DIR/NAME.tmp, or NAME.2.tmp and so on where leftovers that cannot be removed have these
/// names. Returns its path.
std::string make_unfinished(const std::string& checkpoints_dir, const std::string& name);
/// Removes what interrupted saves left. Returns a line for each leftover that stays: it is in nobody's way.
std::vector<std::string> remove_unfinished(const std::string& checkpoints_dir);

/// Renames NAME.replaced to NAME, durably, unless there is a NAME. Returns which of the two it is now.
std::string give_name_back(const std::string& checkpoints_dir, const std::string& replaced);
/// Ends replacements that were interrupted: a whole NAME.replaced is removed where NAME is whole, and gets
/// its name back where there is no NAME. `entries` are those of scan(), and are out of date afterwards.
/// Returns a line for each NAME.replaced that stays.
std::vector<std::string> settle_replaced(const std::string& checkpoints_dir,
                                         const std::vector<Entry>& entries);

/// Renames a checkpoint that is not whole to NAME.damaged, or NAME.unreadable, durably, so that its place is
/// free and it is not taken for a whole one. Returns the new name.
std::string set_aside(const std::string& checkpoints_dir, const std::string& name, Condition condition);
/// Gives `temporary`, a path from make_unfinished(), its name; sync_directory() then makes that durable. A
/// whole checkpoint of the same step that stands there is replaced. Where the file system can exchange two
/// names in one atomic step, `temporary` is the earlier checkpoint afterwards. Elsewhere the earlier one is
/// renamed to NAME.replaced for a moment; settle_replaced() deals with it if the process ends in between.
/// Returns whether NAME.replaced is there.
bool publish(const std::string& checkpoints_dir, const std::string& temporary, const std::string& name);
/// Points the symbolic link `latest` to a checkpoint, atomically.
void move_latest(const std::string& checkpoints_dir, const std::string& name);
/// Hides a checkpoint, then removes its files. Returns a line when files stay, hidden as *.tmp; else nothing.
std::string remove_checkpoint(const std::string& checkpoints_dir, const std::string& name);

}  // namespace weft::ckpt::detail
