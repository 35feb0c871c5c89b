// Tests a disk that fills up or fails while a run is saving. The full one is a small tmpfs in a mount
// namespace of this process's own, which needs root; the failing one is a system call that strace answers.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "restart/workspace.hpp"
#include "support/missing.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

/// A workspace with room for one checkpoint (1.6 MiB) and everything else that a run writes, but not for two.
class FullDisk : public Workspace {
 protected:
  void SetUp() override {
    Workspace::SetUp();
    fs::create_directory(run_dir("run"));
    // The namespace ends with this process, and the mount with it, whatever happens to the test.
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("tmpfs", run_dir("run").c_str(), "tmpfs", 0, "size=3m") == 0;
    if (!mounted)
      GTEST_SKIP() << "cannot mount a small tmpfs: " << std::strerror(errno) << " (it needs root)";
  }
  void TearDown() override { ::umount2(run_dir("run").c_str(), MNT_DETACH); }

  std::vector<std::string> training(const std::string& run) const {
    return weft_on(2, train(run, {"run.steps=300", "debug.hash_every=10", "checkpoint.every=100",
                                  "checkpoint.final=false", "log.tensorboard=true"}));
  }
  void fill() const {
    std::ofstream filler(run_dir("run") + "/filler", std::ios::binary);
    const std::string block(1024, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) continue;
  }
  /// Expects the checkpoint of step 100 to be whole, and that the run goes on from it, with space again, to
  /// the end that it would have had.
  void expect_whole_and_going_on() const {
    const Ended verified = run(weft({"checkpoint", "verify", checkpoints("run") + "/step-00000100"}));
    EXPECT_STATUS(verified, 0);
    for (const auto& entry : fs::directory_iterator(checkpoints("run")))
      EXPECT_NE(entry.path().extension(), ".tmp");
    ASSERT_EQ(::mount(nullptr, run_dir("run").c_str(), nullptr, MS_REMOUNT, "size=64m"), 0);
    const Ended again = run(training("run"));
    EXPECT_STATUS(again, 0);
    EXPECT_EQ(again.lines("continues from step 100").size(), 1U) << again.err;
    EXPECT_STATUS(run(training("whole")), 0);
    EXPECT_EQ(curve(run_dir("run"), 100), curve(run_dir("whole"), 100));
  }
};

/// On the way a full disk would cost the checkpoint alone, but the last checkpoint is what the run was for.
TEST_F(FullDisk, NoRoomForTheLastCheckpointIsAFailure) {
  const Ended ended = run(weft_on(2, train("run", {"run.steps=120", "debug.hash_every=10",
                                                   "checkpoint.every=100", "checkpoint.final=true"})));
  EXPECT_STATUS(ended, 1);
  const auto errors = ended.lines("weft: error:");
  ASSERT_EQ(errors.size(), 1U) << ended.err;
  EXPECT_NE(errors[0].find("all steps are done, but step 120 could not be saved"), std::string::npos)
      << errors[0];
  const auto warnings = ended.lines("weft: warning: rank 0: checkpoint of ");
  ASSERT_EQ(warnings.size(), 1U) << ended.err;
  EXPECT_NE(warnings[0].find("checkpoint of step 120: not enough space"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("the newest checkpoint is still " + checkpoints("run") + "/step-00000100"),
            std::string::npos)
      << warnings[0];
  EXPECT_EQ(steps(run_dir("run")), steps_to(120));
  expect_whole_and_going_on();
}

TEST_F(FullDisk, NotAByteLeftCostsLinesNotTheRun) {
  Job job(training("run"));
  ASSERT_TRUE(wait_for_save(run_dir("run"), 100)) << job.wait(0).err;
  for (const pid_t rank : job.ranks()) ::kill(rank, SIGSTOP);
  fill();
  for (const pid_t rank : job.ranks()) ::kill(rank, SIGCONT);
  const Ended ended = job.wait();
  EXPECT_STATUS(ended, 1);  // the last step's checkpoint is missing
  EXPECT_EQ(ended.lines("step 300/300").size(), 1U) << ended.err;
  for (const char* what : {"checkpoint of step 200", "checkpoint of step 300", "metrics.jsonl"}) {
    int told = 0;
    for (const auto& line : ended.lines("weft: warning:")) told += line.find(what) != std::string::npos;
    EXPECT_EQ(told, 1) << what << "\n" << ended.err;
  }
  for (const auto& line : metrics(run_dir("run"))) EXPECT_TRUE(line.contains("step")) << "a torn line";
  fs::remove(run_dir("run") + "/filler");
  expect_whole_and_going_on();
}

/// Tests with a system call that fails for one rank's file of one save.
class BrokenDisk : public Workspace, public testing::WithParamInterface<const char*> {};

TEST_P(BrokenDisk, CostsThatSave) {
  if (run({"sh", "-c", "command -v strace"}).status != 0) WEFT_MISSING_TOOL() << "there is no strace";
  if (run({"strace", "-qq", "-o", "/dev/null", "true"}).status != 0)
    GTEST_SKIP() << "strace may not trace here";
  const std::string call = GetParam();
  std::vector<std::string> command{"strace", "--seccomp-bpf",
                                   "-f",     "-qq",
                                   "-o",     "/dev/null",
                                   "-e",     "trace=" + call,
                                   "-e",     "inject=" + call + ":error=EIO",
                                   "-P",     checkpoints("run") + "/step-00000004.tmp/shard-00001.h5"};
  const auto training = weft_on(2, train("run", {"run.steps=6", "checkpoint.every=2"}));
  command.insert(command.end(), training.begin(), training.end());
  const Ended ended = run(command);
  EXPECT_STATUS(ended, 0);
  const auto warnings = ended.lines("weft: warning:");
  ASSERT_EQ(warnings.size(), 1U) << ended.err;
  for (const char* part : {"checkpoint of step 4", "rank 1", "shard-00001.h5", "Input/output error"})
    EXPECT_NE(warnings[0].find(part), std::string::npos) << warnings[0];
  for (const char* step : {"2", "6"})
    EXPECT_STATUS(run(weft({"checkpoint", "verify", checkpoints("run") + "/step-0000000" + step})), 0);
  for (const auto& entry : fs::directory_iterator(checkpoints("run")))
    EXPECT_EQ(entry.path().string().find("step-00000004"), std::string::npos) << entry.path();
  EXPECT_EQ(steps(run_dir("run")), steps_to(6));
}

INSTANTIATE_TEST_SUITE_P(At, BrokenDisk, testing::Values("pwrite64", "fsync"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft::test
