// Runs programs as a user does: real processes under a real launcher, with a deadline.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::test {

/// How a command ended.
struct Ended {
  int status = -1;      ///< the exit status; 128 + signal when a signal ended it
  bool in_time = true;  ///< false: it was killed at the deadline
  double seconds = 0;
  std::string out, err;

  /// The lines of `err` that start with `prefix`.
  std::vector<std::string> lines(const std::string& prefix) const;
};

/// A command that runs beside the test. Only one may run at a time, because everything that descends from the
/// test belongs to the job.
class Job {
 public:
  explicit Job(const std::vector<std::string>& command);
  /// Kills what is left.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// The processes called "weft".
  std::vector<pid_t> ranks() const;
  /// Sends a signal to the launcher alone.
  void signal(int number) const;
  /// Sends SIGKILL to the launcher and all its descendants at once, as if the host were gone.
  void kill();
  Ended wait(double deadline_s = 60);

 private:
  void reap();

  pid_t launcher_ = -1;
  int status_ = -1;
  double start_ = 0;
  std::string files_;  ///< prefix of the files that take stdout and stderr
};

/// Starts `command` and waits for its end.
Ended run(const std::vector<std::string>& command, double deadline_s = 60);
/// A command that runs `weft` without a launcher.
std::vector<std::string> weft(std::vector<std::string> arguments);
/// A command that runs `weft` under mpirun.
std::vector<std::string> weft_on(int ranks, const std::vector<std::string>& arguments);
/// A command that runs `weft` under mpirun with other arguments for each rank.
std::vector<std::string> weft_each(const std::vector<std::vector<std::string>>& arguments_by_rank);
#ifdef WEFT_FAULTS_LIBRARY
/// `command`, which runs `weft` without a launcher, with the library of tests/faults. It works on the files
/// below `under`, by these variables.
inline std::vector<std::string> with_faults(const std::vector<std::string>& command, const std::string& under,
                                            const std::vector<std::string>& variables) {
  std::vector<std::string> all{"env", std::string("LD_PRELOAD=") + WEFT_FAULTS_LIBRARY,
                               "WEFT_FAULTS_UNDER=" + under};
  all.insert(all.end(), variables.begin(), variables.end());
  all.insert(all.end(), command.begin(), command.end());
  return all;
}
/// `command`, in which one rank's call, as tests/faults names it, ends with `error`.
inline std::vector<std::string> with_fault(const std::vector<std::string>& command, const std::string& under,
                                           const std::string& rank, const std::string& call, int error) {
  return with_faults(
      command, under,
      {"WEFT_FAULTS_RANK=" + rank, "WEFT_FAULTS_AT=" + call, "WEFT_FAULTS_ERROR=" + std::to_string(error)});
}
#endif
double seconds_now();

}  // namespace weft::test
