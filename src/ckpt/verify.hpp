// `weft checkpoint verify`: is every byte of a checkpoint what was saved?
#pragma once

#include <string>
#include <vector>

namespace weft::ckpt {

/// Reads a whole checkpoint, and returns a line for each thing that is damaged or missing; empty when it is
/// whole.
std::vector<std::string> verify(const std::string& dir);

}  // namespace weft::ckpt
