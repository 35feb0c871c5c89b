// Tests that a job ends soon, with a message, when one rank is lost, or all fail in the middle of a run.
#include <signal.h>

#include <algorithm>
#include <iterator>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

class Failure : public Workspace {};

TEST_F(Failure, AKilledRankEndsAllWithinAMinute) {
  for (const std::size_t victim : {0U, 1U}) {
    SCOPED_TRACE(victim);
    const std::string name = "run" + std::to_string(victim);
    Job job(weft_on(2, train(name, {"run.steps=1000000"})));
    ASSERT_TRUE(wait_for_step(run_dir(name), 3)) << job.wait(0).err;
    const auto ranks = job.ranks();
    ASSERT_EQ(ranks.size(), 2U);
    const double killed_at = seconds_now();
    ASSERT_EQ(::kill(ranks[victim], SIGKILL), 0);
    const Ended ended = job.wait(90);  // waits for the launcher and all ranks
    EXPECT_TRUE(ended.in_time) << "ranks were left";
    EXPECT_LT(seconds_now() - killed_at, 60);
    EXPECT_NE(ended.status, 0);
    EXPECT_NE(ended.err.find("signal 9"), std::string::npos) << ended.err;
  }
}

TEST_F(Failure, ADivergedRunEndsWithOneLineAndIsNotSaved) {
  const Ended ended = run(weft_on(2, train("run", {"optimizer.lr=1e30", "optimizer.warmup=0",
                                                   "optimizer.clip=0.0", "checkpoint.every=1"})));
  EXPECT_STATUS(ended, 1);
  const auto errors = ended.lines("weft: error:");
  ASSERT_EQ(errors.size(), 1U) << ended.err;
  EXPECT_NE(errors[0].find("the run has diverged"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("resume from " + checkpoints("run") + "/step-"), std::string::npos) << errors[0];
  const auto lines = metrics(run_dir("run"));
  ASSERT_FALSE(lines.empty());
  const auto& line = lines.back();
  EXPECT_EQ(line.at("nan"), true);
  const Ended listed = run(weft({"checkpoint", "ls", checkpoints("run")}));
  const int step = line.at("step");
  EXPECT_EQ(listed.out.find("step-" + std::string(7, '0') + std::to_string(step)), std::string::npos)
      << listed.out;
}

/// It stands on a line of its own below the progress, whether that is plain lines or one line on a terminal.
TEST_F(Failure, TheErrorIsTheLastLine) {
  for (const std::string columns : {"0", "100"}) {
    SCOPED_TRACE(columns);
    std::vector<std::string> command{"env", "TERM=xterm", "WEFT_TERMINAL_COLUMNS=" + columns};
    std::ranges::copy(
        weft(train("run" + columns, {"optimizer.lr=1e30", "optimizer.warmup=0", "optimizer.clip=0.0"})),
        std::back_inserter(command));
    const Ended ended = run(command);
    EXPECT_STATUS(ended, 1);
    EXPECT_EQ(ended.err.find("\x1b[K") != std::string::npos, columns == "100") << ended.err;
    const auto error = ended.err.rfind("\nweft: error: ");
    ASSERT_NE(error, std::string::npos) << ended.err;
    EXPECT_EQ(ended.err.find('\n', error + 1), ended.err.size() - 1) << ended.err;
  }
}

}  // namespace
}  // namespace weft::test
