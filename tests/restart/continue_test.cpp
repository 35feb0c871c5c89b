// Tests that a run which was interrupted and started again writes the metrics of a run that was not: every
// loss, norm and state hash, bit for bit, and every step once.
#include <chrono>
#include <filesystem>
#include <thread>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

class Killed : public Workspace {
 protected:
  std::vector<std::string> training(const std::string& run, const std::string& mode, int every) const {
    return weft_on(2, train(run, {"run.steps=" + std::to_string(all_steps), "debug.hash_every=10",
                                  "parallel.mode=" + mode, "checkpoint.every=" + std::to_string(every)}));
  }
  static constexpr int all_steps = 200;
  void expect_equal_curves() const {
    EXPECT_EQ(steps(run_dir("killed")), steps_to(all_steps));
    EXPECT_EQ(curve(run_dir("killed")), curve(run_dir("whole")));
  }
  void expect_to_continue(const std::string& mode) const;
};

/// Kills the run some steps after a checkpoint, while the next one is perhaps being written.
void Killed::expect_to_continue(const std::string& mode) const {
  constexpr int every = 40;
  EXPECT_STATUS(run(training("whole", mode, every)), 0);
  {
    Job job(training("killed", mode, every));
    ASSERT_TRUE(wait_for_save(run_dir("killed"), every)) << job.wait(0).err;
    EXPECT_EQ(job.ranks().size(), 2U);
    job.kill();
  }
  const std::int64_t logged = last_step(run_dir("killed"));
  ASSERT_LT(logged, all_steps) << "it was killed too late to show anything";
  const std::string newest = std::filesystem::read_symlink(checkpoints("killed") + "/latest").string();
  const std::int64_t saved = std::stoll(newest.substr(newest.find('-') + 1));
  EXPECT_GE(saved, every);
  EXPECT_GT(logged, saved) << "no step was lost";
  const Ended again = run(training("killed", mode, every));
  EXPECT_STATUS(again, 0);
  EXPECT_EQ(again.lines("continues from step " + std::to_string(saved)).size(), 1U) << again.err;
  expect_equal_curves();
}

TEST_F(Killed, FsdpContinues) {
  expect_to_continue("fsdp");
}
TEST_F(Killed, DdpContinues) {
  expect_to_continue("ddp");
}

/// Kills at times that know nothing of steps hit saves as well.
TEST_F(Killed, AgainAndAgainAtAnyMoment) {
  EXPECT_STATUS(run(training("whole", "fsdp", 5)), 0);
  int unfinished = 0;
  for (const int milliseconds : {700, 330, 460, 390, 510}) {
    Job job(training("killed", "fsdp", 5));
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    job.kill();
    unfinished += last_step(run_dir("killed")) < all_steps;
  }
  EXPECT_GE(unfinished, 1);
  EXPECT_STATUS(run(training("killed", "fsdp", 5)), 0);
  expect_equal_curves();
}

class Walltime : public Workspace {
 protected:
  void expect_parts_of_a_whole(int ranks, const std::vector<std::string>& sets) const;
};

void Walltime::expect_parts_of_a_whole(int ranks, const std::vector<std::string>& sets) const {
  const auto training = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), sets.begin(), sets.end());
    return weft_on(ranks, train(name, more));
  };
  const auto limited = training("limited", {"run.steps=1000000", "run.walltime=3s"});
  std::int64_t step = 0;
  for (int part = 0; part < 2; ++part) {
    const Ended stopped = run(limited);
    EXPECT_STATUS(stopped, 75);
    EXPECT_LT(stopped.seconds, 30);
    EXPECT_EQ(stopped.lines("run.walltime is near").size(), 1U) << stopped.err;
    const std::int64_t first = step + 1;
    step = last_step(run_dir("limited"));
    EXPECT_GE(step, first) << "each start makes a step at least";
    EXPECT_TRUE(std::filesystem::exists(checkpoints("limited") + "/latest/manifest.json"));
  }
  // The rate is constant, so that the two runs differ in nothing but their ends.
  EXPECT_STATUS(run(training("whole", {"run.steps=" + std::to_string(step), "run.walltime=1h"})), 0);
  EXPECT_EQ(steps(run_dir("limited")), steps_to(step));
  auto whole = curve(run_dir("whole"));
  if (step % 5 != 0) whole.pop_back();  // the validation at the end of the whole run
  EXPECT_EQ(curve(run_dir("limited")), whole);
}

TEST_F(Walltime, SavesStopsAndContinues) {
  expect_parts_of_a_whole(2, {});
}
TEST_F(Walltime, SavesStopsAndContinuesOnAMesh) {
  expect_parts_of_a_whole(4, {"parallel.mesh={ pipe = 2, tensor = 2 }", "model.vocab=260"});
}

TEST_F(Walltime, FarAwayChangesNothing) {
  const Ended ended = run(weft_on(2, train("run", {"run.steps=3", "run.walltime=1h"})));
  EXPECT_STATUS(ended, 0);
  EXPECT_TRUE(ended.lines("run.walltime").empty());
  EXPECT_EQ(steps(run_dir("run")), steps_to(3));
}

}  // namespace
}  // namespace weft::test
