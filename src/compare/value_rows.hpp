// The values that all ranks hash together. The stages of a pipe make different values, and each rank knows
// its own.
#pragma once

#include <cstddef>
#include <vector>

#include "compare/hash_file.hpp"
#include "exec/program_order.hpp"
#include "runtime/session.hpp"

namespace weft::compare {

/// A value that is hashed, without its hash, and where it is made first.
struct ValueRow {
  exec::ProgramPlace place;
  ValueHash value;
};

struct CommonRows {
  std::vector<ValueRow> rows;       ///< those of all stages, in the order of the program of one rank
  std::vector<std::size_t> row_of;  ///< for each row of this rank, which of them it is
  /// For each row of this rank, whether its place on the pipe counts the value. Where several stages have a
  /// value, such as the positions of tokens, the first one counts it.
  std::vector<bool> counted;
};

/// Collective: makes one list of the rows of all ranks, equal on all of them. Values are the same when phase
/// and name are the same. Ranks at one place on the pipe must have the same rows.
CommonRows common_rows(runtime::Session& session, const std::vector<ValueRow>& own);

}  // namespace weft::compare
