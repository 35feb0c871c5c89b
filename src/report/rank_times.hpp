// Finds out which rank is slow, from the seconds of a step that each rank takes for itself. Steps end
// together, so their whole times do not tell.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/executor.hpp"
#include "io/append_file.hpp"
#include "runtime/session.hpp"

namespace weft::report {

/// Where a rank computes. Ranks with one place on the pipe have equal work; without a pipe it is 0.
struct RankPlace {
  std::string host;
  int pipe_rank = 0;
};
/// The places of all ranks, by rank.
std::vector<RankPlace> places_of(runtime::Session& session);

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
  /// Lines go to `path`, ranks.jsonl, which prepare_step_lines() prepares. `places` has the place of each
  /// rank.
  SlowRanks(std::string path, std::optional<std::int64_t> resumed_at, std::vector<RankPlace> places);

  /// Writes a line of the file. Its slowest rank is the one that takes longest beside the median rank of its
  /// own place on the pipe (of an even number, the lower of the two in the middle), and null where no place
  /// has two ranks to compare. Returns a line for the log when that rank takes a tenth longer; else nothing.
  std::string add(std::int64_t step, const RankFigures& own);
  /// Drops the file's lines of later steps, because the run goes on from `step` once more. The time that
  /// these steps took still counts in lines().
  void go_back(std::int64_t step);
  /// Lines about all steps: the slowest, the median and the fastest rank, and each rank where there are few.
  std::vector<std::string> lines() const;

 private:
  std::string name(std::size_t rank) const;
  /// For each rank, the seconds of the median rank of its place.
  std::vector<double> medians_of_places(const std::vector<double>& seconds) const;
  /// The rank that takes longest beside its median; nothing where each rank is alone at its place.
  std::optional<std::size_t> find_slowest(const std::vector<double>& seconds,
                                          const std::vector<double>& medians) const;

  std::string path_;
  std::optional<io::AppendFile> file_;  ///< always there; go_back() opens it anew
  std::vector<RankPlace> places_;
  std::map<int, int> ranks_of_place_;  ///< how many ranks each place on the pipe has
  std::int64_t steps_ = 0;
  std::vector<double> seconds_;  ///< by rank: the sum over steps_ steps
};

}  // namespace weft::report
