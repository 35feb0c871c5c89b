// Lists checkpoints, for `weft checkpoint ls`.
#pragma once

#include <string>

namespace weft::ckpt {

/// A table of a directory's checkpoints, newest first: step, tokens, size, ranks, mode, time (UTC), and
/// whether each is whole; the one that `latest` points to is marked. Says so when there are none.
std::string list(const std::string& checkpoints_dir);
/// Whether list() would have a row: for a checkpoint in whatever condition, or for what a save left behind.
bool has_any(const std::string& checkpoints_dir);

}  // namespace weft::ckpt
