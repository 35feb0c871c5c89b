// Finds where two series of hashed steps part.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compare/hash_file.hpp"

namespace weft::compare {

/// Where the runs part: the first value that is not equal, in A's program order, of the first step that is
/// not equal.
struct Parting {
  std::int64_t step = 0;
  ValueHash in_a, in_b;
  std::size_t after = 0;            ///< how many values after it, in that step, both runs have
  std::size_t differing_after = 0;  ///< how many of these differ
};

struct Comparison {
  std::vector<std::int64_t> steps;  ///< steps that both runs have, with a value in common; ascending
  std::size_t equal_steps = 0;      ///< how many of these steps are equal
  std::size_t only_in_a = 0,        ///< values of the first common step that the other run does not have
      only_in_b = 0;
  /// Whether the axes tensor and context cut values alike in that step: they stand behind the values' names.
  bool cut_alike = true;
  std::optional<Parting> parting;  ///< empty when all common steps are equal
};

/// Compares two runs. Values are the same when phase and name are the same; what made them may differ
/// (`accumulate` on one rank, `reduce_scatter` on several). Values that only one run has are counted and
/// otherwise left out, because schedules differ.
Comparison compare_hashes(std::span<const StepHashes> a, std::span<const StepHashes> b);

}  // namespace weft::compare
