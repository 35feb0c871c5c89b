// Compares two run directories, for `weft compare`: where the runs part, and why.
#pragma once

#include <string>

namespace weft::compare {

struct RunComparison {
  bool equal = true;  ///< whether all steps that both runs recorded are equal
  std::string text;   ///< lines for the terminal, with '\n'
};

/// Compares the resolved decks (all keys but run.name and run.dir), hashes.jsonl, and metrics.jsonl, which
/// has a line for every step, and so also tells where runs part between two hashed steps. Throws
/// Error(bad_input) when a file is missing or damaged, or the runs have no step in common.
RunComparison compare_runs(const std::string& dir_a, const std::string& dir_b);

}  // namespace weft::compare
