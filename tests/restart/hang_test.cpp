// Tests that the job ends when one rank stops in the middle of a run, and that the others say so.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

class Hang : public Workspace {
 protected:
  /// The directory of the token files.
  std::string directory() const { return std::filesystem::path(deck()).parent_path(); }
};

/// Finds the process of a rank by the launcher's variables.
pid_t process_of(const Job& job, int rank) {
  for (const pid_t pid : job.ranks()) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(in), {}};
    for (const char* name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="})
      if (environment.find(name + std::to_string(rank) + '\0') != std::string::npos) return pid;
  }
  return -1;
}

std::vector<std::string> files_of_ranks(const std::string& run_dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run_dir + "/hang"))
    if (const std::string name = entry.path().filename(); name.starts_with("rank-")) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

TEST_F(Hang, AStoppedRankIsNamedAndTheJobEnds) {
  for (const int stopped : {1, 0}) {
    SCOPED_TRACE(stopped);
    const std::string name = "run" + std::to_string(stopped);
    Job job(weft_on(3, train(name, {"run.steps=1000000", "run.collective_timeout=8"})));
    ASSERT_TRUE(wait_for_step(run_dir(name), 3)) << job.wait(0).err;
    const double stopped_at = seconds_now();
    const pid_t process = process_of(job, stopped);
    ASSERT_GT(process, 0);
    ASSERT_EQ(::kill(process, SIGSTOP), 0);
    const Ended ended = job.wait(90);
    EXPECT_STATUS(ended, 76);
    EXPECT_LT(seconds_now() - stopped_at, 8 + 20);
    const std::string rank = std::to_string(stopped);
    for (const int other : {0, 1, 2}) {
      if (other == stopped) continue;
      const auto lines = ended.lines("weft: error: rank " + std::to_string(other) + ": hang: ");
      ASSERT_GE(lines.size(), 2U) << ended.err;
      EXPECT_NE(lines[0].find(": waits for "), std::string::npos) << lines[0];
      EXPECT_NE(lines[1].find("): missing rank"), std::string::npos) << lines[1];
    }
    EXPECT_NE(ended.err.find("hang: first to diverge: rank " + rank + " on "), std::string::npos)
        << ended.err;
    EXPECT_EQ(files_of_ranks(run_dir(name)),
              stopped == 0 ? (std::vector<std::string>{"rank-00001.jsonl", "rank-00002.jsonl"})
                           : (std::vector<std::string>{"rank-00000.jsonl", "rank-00002.jsonl"}));
    const Ended told = run(weft({"hang", run_dir(name)}));
    EXPECT_STATUS(told, 0);
    EXPECT_NE(told.out.find("records of 2 of 3 ranks"), std::string::npos) << told.out;
    EXPECT_NE(told.out.find("first to diverge: rank " + rank + " on "), std::string::npos) << told.out;
    EXPECT_NE(told.out.find(": left no records"), std::string::npos) << told.out;
  }
}

/// The middle stage of a pipe of three stops: both neighbours wait for its messages, or all for its part of a
/// sum. Likewise a rank that shares the layers of its stage with another. The jobs are young, so their
/// records still have the opening of the channels, which differ from rank to rank.
TEST_F(Hang, AStoppedRankOfAMeshIsNamed) {
  for (const auto& [ranks, mesh, place] :
       {std::tuple(3, "{ pipe = 3 }", " (pipe 1)"),
        std::tuple(4, "{ pipe = 2, tensor = 2 }", " (pipe 0, tensor 1)")}) {
    SCOPED_TRACE(mesh);
    const std::string name = "run" + std::to_string(ranks);
    Job job(weft_on(ranks, train(name, {"run.steps=1000000", "run.collective_timeout=4", "log.progress=false",
                                        "model.vocab=260", std::string("parallel.mesh=") + mesh})));
    ASSERT_TRUE(wait_for_step(run_dir(name), 1)) << job.wait(0).err;
    const pid_t process = process_of(job, 1);
    ASSERT_GT(process, 0);
    ASSERT_EQ(::kill(process, SIGSTOP), 0);
    const Ended ended = job.wait(90);
    EXPECT_STATUS(ended, 76);
    EXPECT_NE(ended.err.find("hang: first to diverge: rank 1 on "), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find(std::string(place) + ": left no records"), std::string::npos) << ended.err;
  }
}

#ifdef WEFT_FAULTS_LIBRARY
/// One rank's file system is dead: its fsync never returns. On one rank nobody waits for anybody.
TEST_F(Hang, StorageThatDoesNotAnswerIsNamed) {
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const std::string name = "run" + std::to_string(ranks), rank = std::to_string(ranks - 1);
    const std::string shard = "checkpoints/step-00000004.tmp/shard-0000" + rank + ".h5";
    const std::vector<std::string> sets{"run.steps=6", "checkpoint.every=4", "run.storage_timeout=2",
                                        "run.collective_timeout=60"};
    std::vector<std::string> command =
        with_fault(weft(train(name, sets)), run_dir(name), rank, "fsync\t1\t./" + shard, -1);
    if (ranks > 1) command.insert(command.begin(), {WEFT_MPIRUN, "-n", std::to_string(ranks)});
    const Ended ended = run(command, 90);
    EXPECT_STATUS(ended, 76);
    EXPECT_LT(ended.seconds, 40);
    const auto lines = ended.lines("weft: error: rank " + rank + ": hang: on ");
    ASSERT_EQ(lines.size(), 1U) << ended.err;
    EXPECT_NE(lines[0].find(": waits for storage, fsync of " + run_dir(name) + "/" + shard),
              std::string::npos)
        << lines[0];
    EXPECT_NE(ended.err.find("hang: first to diverge: rank " + rank + " on "), std::string::npos)
        << ended.err;
    EXPECT_NE(ended.err.find(": its storage does not answer, fsync of "), std::string::npos) << ended.err;
  }
}

/// Nothing on the run's file system answers any more, and no collective has a limit. All there is to see is
/// that rank 1 waits for storage, and what looks for it must not wait for that storage itself.
TEST_F(Hang, AFileSystemThatDiesUnderTheRunEndsIt) {
  const std::string shard = "checkpoints/step-00000004.tmp/shard-00001.h5";
  const std::vector<std::string> sets{"run.steps=6", "checkpoint.every=4", "run.storage_timeout=4",
                                      "run.collective_timeout=0s"};
  std::vector<std::string> command =
      with_fault(weft(train("run", sets)), run_dir("run"), "1", "fsync\t1\t./" + shard, -2);
  command.insert(command.begin(), {WEFT_MPIRUN, "-n", "2"});
  const Ended ended = run(command, 90);
  EXPECT_STATUS(ended, 76);
  EXPECT_NE(ended.err.find("rank 1: hang: on "), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find(": waits for storage, fsync of " + run_dir("run") + "/" + shard),
            std::string::npos)
      << ended.err;
}

/// Reading the token files to verify them is watched, too, and a run that has ended does not wait for it.
TEST_F(Hang, TokenFilesThatDoNotAnswerAreNamedOrLeftBehind) {
  const auto command = [&](const std::string& name, const std::vector<std::string>& sets) {
    return with_fault(weft(train(name, sets)), directory(), "0", "pread64\t1\t./train.bin", -1);
  };
  const Ended watched =
      run(command("watched", {"run.steps=1000000", "run.storage_timeout=2", "run.collective_timeout=4"}));
  EXPECT_STATUS(watched, 76);
  EXPECT_NE(watched.err.find(": waits for storage, read of " + path("train.bin")), std::string::npos)
      << watched.err;
  const Ended left = run(command("left", {"run.storage_timeout=0s", "run.collective_timeout=4"}));
  EXPECT_STATUS(left, 0);
  EXPECT_NE(left.err.find("too short to verify the checksums"), std::string::npos) << left.err;
  const Ended failed = run(command(
      "failed", {"run.storage_timeout=0s", "optimizer.lr=1e30", "optimizer.clip=0", "run.steps=100000"}));
  EXPECT_STATUS(failed, 1);
  EXPECT_EQ(failed.lines("weft: error: step 2: the loss is ").size(), 1U) << failed.err;
}

/// Rank 1's file is never read whole. The last step is saved all the same, before anybody waits for that, for
/// less time than a collective may take; and the checkpoint names the file that rank 0 has read.
TEST_F(Hang, ARunThatIsDoneSavesBeforeItWaitsForItsData) {
  std::vector<std::string> command =
      with_fault(weft(train("run", {"run.steps=100", "run.storage_timeout=0s", "run.collective_timeout=6"})),
                 directory(), "1", "pread64\t1\t./valid.bin", -1);
  command.insert(command.begin(), {WEFT_MPIRUN, "-n", "2"});
  const Ended ended = run(command);
  EXPECT_STATUS(ended, 0);
  const std::string last = checkpoints("run") + "/step-00000100";
  const auto manifest = nlohmann::json::parse(contents(last)[last + "/manifest.json"]);
  std::vector<bool> verified;
  for (const auto& file : manifest.at("run").at("data"))
    verified.push_back(!file.at("verified").get<std::string>().empty());
  EXPECT_EQ(verified, (std::vector{true, false})) << manifest;
}

/// Rank 0 cannot leave before its save has ended, which storage keeps from ending; rank 1 leaves at once, and
/// ends all.
TEST_F(Hang, AnErrorIsToldWhileASaveWaitsForStorage) {
  flip_bit(path("train.bin"), 0.5);
  const std::string place = "checkpoints/step-00000000.tmp";
  const std::vector<std::string> sets{"checkpoint.initial=true", "checkpoint.every=100", "run.steps=100000"};
  std::vector<std::string> command =
      with_fault(weft(train("run", sets)), run_dir("run"), "0", "mkdir\t1\t./" + place, -1);
  command.insert(command.begin(), {WEFT_MPIRUN, "-n", "2"});
  const Ended ended = run(command);
  EXPECT_STATUS(ended, 2);
  const auto errors = ended.lines("weft: error:");
  ASSERT_EQ(errors.size(), 1U) << ended.err;
  EXPECT_NE(errors[0].find("train.bin is damaged"), std::string::npos) << errors[0];
}
#endif

TEST_F(Hang, ARunThatHasNotHungHasNothingToTell) {
  const Ended told = run(weft({"hang", run_dir("none")}));
  EXPECT_STATUS(told, 2);
  EXPECT_EQ(told.lines("weft: error:").size(), 1U) << told.err;
}

TEST_F(Hang, EachRanksSecondsAreTold) {
  const Ended ended = run(weft_on(2, train("run", {"log.every=4"})));
  EXPECT_STATUS(ended, 0);
  std::ifstream in(run_dir("run") + "/ranks.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 3U);         // after steps 4, 8 and 10
  EXPECT_EQ(lines[0].at("steps"), 3);  // the first step does not count
  EXPECT_EQ(lines[2].at("step"), 10);
  EXPECT_EQ(lines[2].at("steps"), 2);
  for (const auto& line : lines) {
    ASSERT_EQ(line.at("own_s").size(), 2U);
    for (const double seconds : line.at("own_s")) EXPECT_GT(seconds, 0);
  }
  EXPECT_NE(ended.err.find("slowest: rank "), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace weft::test
