// Checks every byte of a checkpoint, for `weft checkpoint verify`.
#pragma once

#include <string>
#include <vector>

namespace weft::ckpt {

/// Reads a whole checkpoint, and returns a line for each thing that is damaged or missing; empty when it is
/// whole. With `direct_io` it reads without the page cache, where the file system can.
std::vector<std::string> verify(const std::string& dir, bool direct_io = true);

}  // namespace weft::ckpt
