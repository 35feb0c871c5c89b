// Notes which elements have been seen. This proves, without holding the slices, that they cover a state
// vector, or what a rank asks for, exactly once.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/shard.hpp"

namespace weft::ckpt::detail {

/// Disjoint intervals, which are joined where they touch. Slices that come in the order of their elements
/// leave a single one.
class Intervals {
 public:
  /// Adds [begin, end). Returns false, and changes nothing, when that overlaps what is there.
  bool add(std::int64_t begin, std::int64_t end);
  /// The first element of [begin, end) that is missing; `end` when none is.
  std::int64_t first_missing(std::int64_t begin, std::int64_t end) const;
  bool empty() const { return joined_.empty(); }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> joined_;  ///< [begin, end), ascending
};

/// The elements of all state vectors of a checkpoint that have been seen.
class Coverage {
 public:
  /// Begins with no element seen; `units` outlives this object.
  explicit Coverage(const std::vector<Unit>& units);
  /// Throws Error(bad_checkpoint) for elements that were there before, or are in no unit.
  void add(const Shard& shard);
  /// Throws Error(bad_checkpoint) unless each unit is covered, for each role of which any element was added.
  void check() const;

 private:
  const std::vector<Unit>& units_;
  std::vector<Intervals> seen_;  ///< by role, then by unit
};

}  // namespace weft::ckpt::detail
