// Lists checkpoints, for `weft checkpoint ls`.
#pragma once

#include <string>

namespace weft::ckpt {

/// A table of a directory's checkpoints, newest first: step, tokens, size, ranks, mode, time (UTC), and
/// whether each is whole; the one that `latest` points to is marked. Says so when there are none.
std::string list(const std::string& checkpoints_dir);

}  // namespace weft::ckpt
