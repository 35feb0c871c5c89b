// Runs other programs.
#pragma once

#include <string>
#include <vector>

namespace weft::study {

/// Runs a program, found by PATH, and waits for it. Its output goes to the file `log`, and its errors to
/// `errors` (empty: to `log`, too). Returns the exit code; 128 and the signal where one ended it, 127 where
/// there is no such program. Throws Error(environment) where a file cannot be written.
int run_child(const std::vector<std::string>& words, const std::string& log, const std::string& errors = {});

/// The words as a line for a shell, quoted where they have to be.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace weft::study
