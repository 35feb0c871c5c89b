// Learns that a run shall stop before run.steps: by a signal, or by the file STOP in the run directory.
#pragma once

#include <string>

namespace weft::job {

/// From now on SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 no longer end this process: StopRequest tells of the
/// first. Nor does a log that nobody reads any more (SIGPIPE) or a file that may not grow (SIGXFSZ): the call
/// fails instead, and costs a line or a save. A SIGTERM that comes a second or more after another ends the
/// process as ever. A SIGHUP that is ignored (nohup) stays ignored. Call it before MPI starts, for signals
/// that come early, and again after that, because libraries may put handlers of their own.
void catch_stop_signals();
/// From now on these signals end the process again: a launcher ends what is left of a failed run by SIGTERM.
void release_stop_signals();

/// Finds requests to stop. A request is a number, so that ranks can agree on it by their maximum: 0 is none,
/// the file is the largest, and of equal signals the lowest rank's counts.
class StopRequest {
 public:
  StopRequest(const std::string& run_dir, int rank);

  /// The request that this rank knows of. Rank 0 looks for the file, at most once a second.
  double seen();
  /// A request in words: "SIGUSR1 on rank 3", "the file runs/x/STOP"; empty for none.
  std::string text(double request) const;
  /// Whether the request was the file. Then its user is there, and does not want a script to start the run
  /// again.
  static bool by_file(double request);
  /// Removes the file, on rank 0; otherwise the next start would stop, too. If that is impossible, it logs a
  /// warning.
  void remove_file() const;

 private:
  std::string file_;
  int rank_;
  bool file_seen_ = false;
  double looked_;
};

}  // namespace weft::job
