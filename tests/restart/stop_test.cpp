// Tests a run that is asked to stop, by a signal or by the file STOP: it finishes the step, saves, says why,
// and ends with a code that tells scripts whether to start it again. Nothing of the curve is lost.
#include <signal.h>
#include <stdlib.h>

#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

constexpr int unfinished = 75, stopped = 5;

class Stop : public Workspace {
 protected:
  std::vector<std::string> endless(const std::string& run) const {
    return weft_on(2, train(run, {"run.steps=1000000"}));
  }
  /// Expects a line that says `why`, and a checkpoint of the last step that the metrics have.
  void expect_saved(const Ended& ended, const std::string& why, const std::string& run) const {
    const std::string step = std::to_string(last_step(run_dir(run)));
    EXPECT_EQ(ended.lines(why + ": stopped after step " + step + " of 1000000").size(), 1U) << ended.err;
    EXPECT_EQ(fs::read_symlink(checkpoints(run) + "/latest").string(),
              "step-" + std::string(8 - step.size(), '0') + step);
  }
  /// Expects the line of a signal, which names the rank that had it first: where all ranks get it, one may be
  /// a step ahead.
  void expect_saved_on_signal(const Ended& ended, const std::string& signal, const std::string& run) const {
    const std::string why = signal + " on rank ";
    const auto lines = ended.lines(why);
    ASSERT_EQ(lines.size(), 1U) << ended.err;
    expect_saved(ended, lines[0].substr(0, why.size() + 1), run);
  }
  /// Goes on for three steps, and expects the curve of a run that nobody stopped.
  void expect_to_continue(const std::string& run) const {
    const std::string steps = "run.steps=" + std::to_string(last_step(run_dir(run)) + 3);
    EXPECT_STATUS(weft::test::run(weft_on(2, train(run, {steps}))), 0);
    EXPECT_STATUS(weft::test::run(weft_on(2, train("whole", {steps}))), 0);
    EXPECT_EQ(curve(run_dir(run)), curve(run_dir("whole")));
  }
};

TEST_F(Stop, AnySignalToAnyRankSavesAndEnds) {
  const std::vector<std::pair<int, std::string>> signals{
      {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}};
  for (std::size_t i = 0; i < signals.size(); ++i) {
    const auto& [number, name] = signals[i];
    SCOPED_TRACE(name);
    Job job(endless(name));
    ASSERT_TRUE(wait_for_step(run_dir(name), 3)) << job.wait(0).err;
    const auto ranks = job.ranks();
    ASSERT_EQ(ranks.size(), 2U);
    ::kill(ranks[i % 2], number);
    const Ended ended = job.wait();
    EXPECT_STATUS(ended, unfinished);
    expect_saved_on_signal(ended, name, name);
    EXPECT_FALSE(fs::exists(run_dir(name) + "/lock"));
  }
  expect_to_continue("SIGUSR2");
}

TEST_F(Stop, TheLauncherForwardsUserSignals) {
  for (const int number : {SIGUSR1, SIGUSR2}) {
    const std::string name = number == SIGUSR1 ? "SIGUSR1" : "SIGUSR2";
    Job job(endless(name));
    ASSERT_TRUE(wait_for_step(run_dir(name), 3)) << job.wait(0).err;
    job.signal(number);
    const Ended ended = job.wait();
    EXPECT_STATUS(ended, unfinished);
    expect_saved_on_signal(ended, name, name);
  }
}

/// Open MPI's mpirun sends SIGTERM to the ranks after the time-out, SIGKILL after another, and ends with 1 in
/// any case.
TEST_F(Stop, ATerminatedLauncherLeavesTimeToSave) {
  ::setenv("OMPI_MCA_odls_base_sigkill_timeout", "3", 1);
  Job job(endless("run"));
  ::unsetenv("OMPI_MCA_odls_base_sigkill_timeout");
  ASSERT_TRUE(wait_for_step(run_dir("run"), 3)) << job.wait(0).err;
  job.signal(SIGTERM);
  const Ended ended = job.wait();
  EXPECT_STATUS(ended, 1);
  expect_saved_on_signal(ended, "SIGTERM", "run");
}

TEST_F(Stop, TheFileEndsTheRunForGood) {
  Job job(endless("run"));
  ASSERT_TRUE(wait_for_step(run_dir("run"), 3)) << job.wait(0).err;
  write_file(run_dir("run") + "/STOP", "");
  const Ended ended = job.wait();
  EXPECT_STATUS(ended, stopped);
  expect_saved(ended, "the file " + run_dir("run") + "/STOP", "run");
  EXPECT_FALSE(fs::exists(run_dir("run") + "/STOP")) << "the next start would stop, too";
  expect_to_continue("run");
}

TEST_F(Stop, AFileThatIsThereAtTheStart) {
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=4"}))), 0);
  const auto before = curve(run_dir("run"));
  write_file(run_dir("run") + "/STOP", "");
  const Ended ended = run(weft_on(2, train("run", {"run.steps=8"})));
  EXPECT_STATUS(ended, stopped);
  EXPECT_EQ(ended.lines("the file " + run_dir("run") + "/STOP: stopped after step 4 of 8").size(), 1U)
      << ended.err;
  EXPECT_EQ(curve(run_dir("run")), before);
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=8"}))), 0);
  EXPECT_EQ(steps(run_dir("run")), steps_to(8));
}

/// Runs a command of one rank by a line of bash, which has it as "$@".
Ended run_by_bash(const std::string& line, const std::vector<std::string>& command) {
  std::vector<std::string> all{"bash", "-c", line, "bash"};
  all.insert(all.end(), command.begin(), command.end());
  return run(all);
}

/// `weft train ... | tee log` when the terminal goes away: tee ends first, and the run still has to save.
TEST_F(Stop, ALogThatNobodyReadsEndsNoRun) {
  const Ended ended = run_by_bash("\"$@\" 2>&1 | true; exit ${PIPESTATUS[0]}",
                                  weft(train("run", {"run.steps=4", "log.every=1"})));
  EXPECT_STATUS(ended, 0);
  EXPECT_EQ(steps(run_dir("run")), steps_to(4));
  EXPECT_TRUE(fs::exists(checkpoints("run") + "/latest"));
}

/// Who closes the descriptors means to hear nothing. No file of the run may take their numbers, and with them
/// what is meant for the terminal.
TEST_F(Stop, StandardDescriptorsThatAreClosedLeadNowhere) {
  std::vector<std::string> command{"bash", "-c", "exec \"$@\" <&- >&- 2>&-", "bash"};
  const auto training = weft(train("run", {"run.steps=1000000"}));
  command.insert(command.end(), training.begin(), training.end());
  Job job(command);
  ASSERT_TRUE(wait_for_step(run_dir("run"), 3)) << job.wait(0).err;
  const auto ranks = job.ranks();
  ASSERT_EQ(ranks.size(), 1U);
  for (const char* number : {"0", "1", "2"})
    EXPECT_EQ(fs::read_symlink("/proc/" + std::to_string(ranks[0]) + "/fd/" + number), "/dev/null") << number;
  ::kill(ranks[0], SIGUSR1);
  const Ended ended = job.wait();
  EXPECT_STATUS(ended, unfinished);
  const Ended deaf = run_by_bash("exec \"$@\" >&-", weft({"deck", deck()}));
  EXPECT_STATUS(deaf, 6);
  EXPECT_EQ(deaf.lines("weft: error: cannot write standard output (Bad file descriptor)").size(), 1U)
      << deaf.err;
}

/// A limit of 1 MiB a file, which a shard exceeds: each save fails with a line, and only the last one
/// counts.
TEST_F(Stop, AFileThatMayNotGrowCostsASave) {
  const Ended ended =
      run_by_bash("ulimit -f 1024; \"$@\"", weft(train("run", {"run.steps=4", "checkpoint.every=2"})));
  EXPECT_STATUS(ended, 1);
  for (const char* const step : {"2", "4"})
    EXPECT_EQ(ended.lines(std::string("weft: warning: rank 0: checkpoint of step ") + step + ": ").size(), 1U)
        << ended.err;
  EXPECT_EQ(steps(run_dir("run")), steps_to(4));
}

/// What /proc/PID/status says behind "FIELD:" and a tab; empty when the process has ended.
std::string status_field(pid_t pid, const std::string& field) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(field + ":\t")) return line.substr(field.size() + 2);
  return {};
}

/// Whether a process catches a signal.
bool catches(pid_t pid, int number) {
  const std::string mask = status_field(pid, "SigCgt");
  return !mask.empty() && ((std::stoull(mask, nullptr, 16) >> (number - 1)) & 1) != 0;
}

void wait_until_caught(const Job& job, int number) {
  for (const double start = seconds_now(); seconds_now() - start < 30;) {
    const auto ranks = job.ranks();
    int ready = 0;
    for (const pid_t rank : ranks) ready += catches(rank, number);
    if (ready == 2) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  FAIL() << "no ranks";
}

/// A run can be stopped from the first moment on: while MPI starts, plans are made, steps run, and
/// checkpoints are written.
TEST_F(Stop, AtAnyMoment) {
  const auto training = [&](const std::string& run) {
    return weft_on(2, train(run, {"run.steps=20", "checkpoint.every=1"}));
  };
  EXPECT_STATUS(run(weft_on(2, train("whole", {"run.steps=20"}))), 0);
  int early = 0;
  for (const int milliseconds : {0, 150, 300, 400}) {
    SCOPED_TRACE(milliseconds);
    Job job(training("stopped"));
    wait_until_caught(job, SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    for (const pid_t rank : job.ranks()) ::kill(rank, SIGUSR1);
    const Ended ended = job.wait();
    EXPECT_STATUS(ended, last_step(run_dir("stopped")) == 20 ? 0 : unfinished);
    early += ended.status == unfinished;
  }
  EXPECT_GE(early, 1);
  EXPECT_STATUS(run(training("stopped")), 0);
  EXPECT_EQ(curve(run_dir("stopped")), curve(run_dir("whole")));
}

#ifdef WEFT_FAULTS_LIBRARY
/// Waits until the job's only rank has stopped by SIGSTOP, and returns its process; -1 when it has not.
pid_t wait_until_stopped(const Job& job) {
  for (const double start = seconds_now(); seconds_now() - start < 30;) {
    for (const pid_t rank : job.ranks())
      if (status_field(rank, "State").starts_with("T")) return rank;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return -1;
}

/// The process is stopped while it saves step 3 or 4, and the request comes then. The next step hears of it,
/// which is the last one, or none is left to do so.
TEST_F(Stop, ARequestInTheLastStepsEndsWithZero) {
  struct Case {
    bool by_file;
    int saved, steps, status;
  };
  for (const Case& c : {Case{false, 3, 4, 0}, Case{false, 4, 4, 0}, Case{true, 3, 4, 0}, Case{true, 4, 4, 0},
                        Case{false, 3, 5, unfinished}}) {
    const std::string name =
        std::string(c.by_file ? "file" : "signal") + std::to_string(c.saved) + "of" + std::to_string(c.steps);
    SCOPED_TRACE(name);
    const std::vector<std::string> sets{"run.steps=" + std::to_string(c.steps), "checkpoint.every=3",
                                        "checkpoint.background=false"};
    const std::string save = "mkdir\t1\t./checkpoints/step-0000000" + std::to_string(c.saved) + ".tmp";
    Job job(with_fault(weft(train(name, sets)), run_dir(name), "0", save, -3));
    const pid_t rank = wait_until_stopped(job);
    ASSERT_GT(rank, 0) << job.wait(0).err;
    EXPECT_EQ(last_step(run_dir(name)), c.saved);
    if (c.by_file) {
      write_file(run_dir(name) + "/STOP", "");
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // the run looks once a second
    } else {
      ::kill(rank, SIGUSR1);
    }
    ::kill(rank, SIGCONT);
    const Ended ended = job.wait();
    EXPECT_STATUS(ended, c.status);
    EXPECT_EQ(steps(run_dir(name)), steps_to(4));
    EXPECT_EQ(fs::read_symlink(checkpoints(name) + "/latest").string(), "step-00000004");
    EXPECT_EQ(ended.lines("SIGUSR1 on rank 0: stopped after step 4 of 5").size(), c.status == 0 ? 0U : 1U);
    EXPECT_EQ(ended.lines("  memory of a rank: ").size(), 1U) << "no summary: " << ended.err;
    EXPECT_FALSE(fs::exists(run_dir(name) + "/STOP")) << "the next start would stop";
  }
}
#endif

}  // namespace
}  // namespace weft::test
