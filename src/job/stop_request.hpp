// Being asked to stop before run.steps: by a signal, or by the file STOP in the run directory.
#pragma once

#include <string>

namespace weft::job {

/// From now on SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 no longer end this process: StopRequest tells of the
/// first. A SIGTERM that comes a second or more after another ends the process as ever. A SIGHUP that is
/// ignored (nohup) stays ignored. Call it before MPI starts, for signals that come early, and again after
/// that, because libraries may put handlers of their own.
void catch_stop_signals();
/// From now on they end it again: a launcher ends what is left of a failed run by SIGTERM.
void release_stop_signals();

/// A request is a number, so that ranks can agree on it by their maximum: 0 is none, the file is the largest,
/// and of equal signals the lowest rank's counts.
class StopRequest {
 public:
  StopRequest(const std::string& run_dir, int rank);

  /// What this rank knows. Rank 0 looks for the file, at most once a second.
  double seen();
  /// "SIGUSR1 on rank 3", "the file runs/x/STOP"; empty for none.
  std::string text(double request) const;
  /// Whether it was the file: its user is there, and wants the run not to be started again by a script.
  static bool by_file(double request);
  /// Rank 0 removes the file, or the next start would stop, too. What keeps it from that is a warning.
  void remove_file() const;

 private:
  std::string file_;
  int rank_;
  bool file_seen_ = false;
  double looked_;
};

}  // namespace weft::job
