// `weft compare`: what two run directories say about where the runs part, and why.
#pragma once

#include <string>

namespace weft::compare {

struct RunComparison {
  bool equal = true;  ///< over all steps that both runs recorded
  std::string text;   ///< for the terminal, with '\n'
};

/// Compares the resolved decks (all keys but run.name and run.dir), hashes.jsonl, and metrics.jsonl (whose
/// lines are every step's, so they also tell of a parting between two hashed steps). Throws Error(bad_input)
/// when a file is missing or damaged, or the runs have no step in common.
RunComparison compare_runs(const std::string& dir_a, const std::string& dir_b);

}  // namespace weft::compare
