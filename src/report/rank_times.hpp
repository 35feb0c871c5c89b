// Which rank is slow: the seconds of a step that each rank takes for itself. Steps end together, so their
// own times do not tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/executor.hpp"
#include "io/append_file.hpp"
#include "runtime/session.hpp"

namespace weft::report {

/// By rank: mean seconds of a step without the time in which it waited for others.
struct OwnSeconds {
  std::int64_t steps = 0;  ///< that the means are over; 0: none
  std::vector<double> seconds;
};

/// Collects a rank's seconds. The first step counts nowhere: it loads libraries and touches memory. On the
/// host, a rank's own seconds are the step less what its compute lane waited for collectives. The host does
/// not see a stream wait; there they are the step less what its collectives took beyond the rank's whose took
/// least (the one that comes last finds the others waiting).
class RankTimes {
 public:
  explicit RankTimes(runtime::Session& session) : session_(session) {}

  /// A step: the plan's times, and the seconds of the whole with the copying of inputs.
  void add(const exec::Times& times, double step_seconds);
  /// Collective: of the steps since the last call.
  OwnSeconds collect();

 private:
  runtime::Session& session_;
  bool any_ = false;
  std::int64_t steps_ = 0;
  double step_s_ = 0;       ///< less the waits that are seen
  double under_way_s_ = 0;  ///< where waits are not seen
};

/// Says which rank is slow; rank 0's.
class SlowRanks {
 public:
  /// Lines go to `path`, ranks.jsonl (prepare_step_lines()). `hosts` by rank.
  SlowRanks(const std::string& path, std::optional<std::int64_t> resumed_at, std::vector<std::string> hosts);

  /// Writes a line of the file. Returns a line for the log when a rank takes a tenth longer than the median
  /// rank (of an even number the lower); else nothing.
  std::string add(std::int64_t step, const OwnSeconds& own);
  /// Over all steps: the slowest, the median and the fastest rank, and each rank where they are few.
  std::vector<std::string> lines() const;

 private:
  std::string name(std::size_t rank) const;

  io::AppendFile file_;
  std::vector<std::string> hosts_;
  std::int64_t steps_ = 0;
  std::vector<double> seconds_;  ///< sums over steps_
};

}  // namespace weft::report
