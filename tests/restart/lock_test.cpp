// Tests two jobs in one run directory: the second is refused, and a run that was killed is not in the way.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class Lock : public Workspace {
 protected:
  /// Runs a command beside a Job, without waiting for the end of the Job.
  Ended run_beside(const std::vector<std::string>& command) const {
    std::string line;
    for (const auto& word : command) line += "'" + word + "' ";
    const int status = ::system((line + ">/dev/null 2>" + path("beside.err")).c_str());
    Ended ended;
    ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ended.err = read_file(path("beside.err"));
    return ended;
  }
};

TEST_F(Lock, RefusesASecondJob) {
  Job first(weft_on(2, train("run", {"run.steps=1000000"})));
  ASSERT_TRUE(wait_for_step(run_dir("run"), 3)) << first.wait(0).err;
  const std::string deck_before = read_file(run_dir("run") + "/deck.toml");
  const Ended second = run_beside(weft_on(2, train("run", {"run.steps=5", "checkpoint.resume=never"})));
  EXPECT_STATUS(second, 2);
  const auto errors = second.lines("weft: error:");
  ASSERT_EQ(errors.size(), 1U) << second.err;
  EXPECT_NE(errors[0].find(run_dir("run") + ": another run writes here (process "), std::string::npos)
      << errors[0];
  EXPECT_EQ(read_file(run_dir("run") + "/deck.toml"), deck_before);
  EXPECT_FALSE(fs::exists(run_dir("run") + "/metrics.jsonl.old"));
  first.signal(SIGUSR1);
  EXPECT_STATUS(first.wait(), 75);
  EXPECT_EQ(steps(run_dir("run")), steps_to(last_step(run_dir("run"))));
}

/// Of two jobs that start together in a directory that is not there yet, one trains.
TEST_F(Lock, LetsOneOfTwoStartersIn) {
  const auto training = weft_on(1, train("run", {"run.steps=150", "debug.hash_every=0"}));
  Job first(training);
  const Ended second = run_beside(training);
  const Ended ended = first.wait();
  EXPECT_EQ(std::min(second.status, ended.status), 0) << second.err << ended.err;
  EXPECT_EQ(std::max(second.status, ended.status), 2) << second.err << ended.err;
  EXPECT_EQ(steps(run_dir("run")), steps_to(150));
  for (const auto& entry : fs::directory_iterator(path("")))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".run")) << "a leftover";
}

TEST_F(Lock, OfAKilledRunIsTakenOver) {
  {
    Job job(weft_on(2, train("run", {"run.steps=1000000"})));
    ASSERT_TRUE(wait_for_step(run_dir("run"), 3)) << job.wait(0).err;
    job.kill();
  }
  EXPECT_TRUE(fs::exists(run_dir("run") + "/lock"));
  const Ended next = run(weft_on(2, train("run", {"run.steps=5"})));
  EXPECT_STATUS(next, 0);
  EXPECT_LT(next.seconds, 15);
  EXPECT_EQ(next.lines("took over the run directory of a run that is dead (process ").size(), 1U) << next.err;
  EXPECT_EQ(steps(run_dir("run")), steps_to(5));
  EXPECT_FALSE(fs::exists(run_dir("run") + "/lock"));
}

}  // namespace
}  // namespace weft::test
