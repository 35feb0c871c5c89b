// Runs other programs.
#pragma once

#include <string>
#include <vector>

namespace weft::study {

/// Runs a program, found by PATH, and waits for it. Both outputs go to the file `log`. Returns the exit code;
/// 128 and the signal where one ended it, 127 where it could not be started.
int run_child(const std::vector<std::string>& words, const std::string& log);

}  // namespace weft::study
