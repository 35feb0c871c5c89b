// Finds out which rank is slow, from the seconds of a step that each rank takes for itself. Steps end
// together, so their whole times do not tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/executor.hpp"
#include "io/append_file.hpp"
#include "runtime/session.hpp"

namespace weft::report {

struct MemoryBytes {
  std::int64_t resident = 0, planned = 0;
};

/// By rank: the mean seconds of a step without the time in which the rank waited for others, and the most
/// memory that the rank had resident at the end of a step, with what was planned for it.
struct RankFigures {
  std::int64_t steps = 0;  ///< how many steps the means are over; 0: none
  std::vector<double> seconds;
  std::vector<MemoryBytes> memory;
};

/// Collects a rank's own seconds. The first step does not count, because it loads libraries and touches
/// memory. On the host, a rank's own seconds are the step less what its compute lane waited for collectives.
/// On a GPU the host does not see a stream wait. There, they are the step less what the rank's collectives
/// took beyond those of the rank whose took least (the rank that comes last finds the others waiting).
class RankTimes {
 public:
  explicit RankTimes(runtime::Session& session) : session_(session) {}

  /// Adds a step: the plan's times, the seconds of the whole step with the copying of inputs, and this rank's
  /// memory at its end.
  void add(const exec::Times& times, double step_seconds, const MemoryBytes& memory);
  /// Collective: the own seconds of the steps since the last call, and the most memory since then.
  RankFigures collect();

 private:
  runtime::Session& session_;
  bool any_ = false;
  std::int64_t steps_ = 0;
  double step_s_ = 0;  ///< the step less the waits that are seen
  MemoryBytes memory_;
  double under_way_s_ = 0;  ///< how long collectives were under way, where waits are not seen
};

/// Says which rank is slow; it is used on rank 0.
class SlowRanks {
 public:
  /// Lines go to `path`, ranks.jsonl, which prepare_step_lines() prepares. `hosts` has the host of each rank.
  SlowRanks(const std::string& path, std::optional<std::int64_t> resumed_at, std::vector<std::string> hosts);

  /// Writes a line of the file. Returns a line for the log when a rank takes a tenth longer than the median
  /// rank (of an even number, the lower of the two in the middle); else nothing.
  std::string add(std::int64_t step, const RankFigures& own);
  /// Lines about all steps: the slowest, the median and the fastest rank, and each rank where there are few.
  std::vector<std::string> lines() const;

 private:
  std::string name(std::size_t rank) const;

  io::AppendFile file_;
  std::vector<std::string> hosts_;
  std::int64_t steps_ = 0;
  std::vector<double> seconds_;  ///< by rank: the sum over steps_ steps
};

}  // namespace weft::report
