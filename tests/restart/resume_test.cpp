// Tests from which checkpoints a run may start.
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

/// A workspace with a run of ten steps on two ranks, with checkpoints at steps five and ten.
class Resume : public Workspace {
 protected:
  void SetUp() override {
    Workspace::SetUp();
    ASSERT_EQ(run(weft_on(2, train("first", {"checkpoint.every=5"}))).status, 0);
  }
  std::string step_5() const { return checkpoints("first") + "/step-00000005"; }
  /// Expects exit status 4, one line that contains `text`, and that not a byte is changed or written.
  void expect_stopped(const std::string& text) const { expect_refused({}, 4, text); }
  void expect_refused(const std::vector<std::string>& sets, int status, const std::string& text) const {
    SCOPED_TRACE(text);
    const auto before = contents(run_dir("first"));
    const Ended ended = run(weft_on(2, train("first", sets)));
    EXPECT_STATUS(ended, status);
    const auto errors = ended.lines("weft: error:");
    ASSERT_EQ(errors.size(), 1U) << ended.err;
    EXPECT_NE(errors[0].find(text), std::string::npos) << errors[0];
    EXPECT_TRUE(contents(run_dir("first")) == before) << "the run directory has changed";
  }
};

TEST_F(Resume, OfAnotherModelNamesTheKey) {
  expect_refused({"model.dim=128"}, 4, "(dim is 64 there and 128 here)");
  expect_refused({"model.vocab=320"}, 4, "(vocab is 300 there and 320 here)");
  expect_refused({"model.tie_embeddings=true"}, 4, "(tie_embeddings is false there and true here)");
}

TEST_F(Resume, OfAnotherGlobalBatchIsRefused) {
  expect_refused({"data.global_batch=24", "checkpoint.resume=" + step_5(), "run.steps=20"}, 2,
                 "the checkpoint stands at sample 60, which is not step 5 of a global batch of 24");
}

/// A start of a run that has done its steps leaves the record of the run as it is: deck.toml is the deck of
/// the curve. The file is another one, by which jobs/train.sbatch sees that Weft has started.
TEST_F(Resume, OfARunThatIsDoneSaysSoAndKeepsItsDeck) {
  const std::string deck = run_dir("first") + "/deck.toml", text = read_file(deck);
  const auto whole = curve(run_dir("first"));
  for (const std::string steps : {"10", "3"}) {
    SCOPED_TRACE(steps);
    const auto written = fs::last_write_time(deck);
    const Ended ended = run(weft(train("first", {"optimizer.lr=1e-3", "run.steps=" + steps})));
    EXPECT_STATUS(ended, 0);
    EXPECT_EQ(ended
                  .lines("all " + steps + " steps are done already (" + checkpoints("first") +
                         "/step-00000010); for more raise run.steps, ")
                  .size(),
              1U)
        << ended.err;
    EXPECT_EQ(read_file(deck), text);
    EXPECT_NE(fs::last_write_time(deck), written);
    EXPECT_EQ(curve(run_dir("first")), whole);
  }
  const Ended more =
      run(weft(train("first", {"run.dir=" + run_dir("first") + "/", "run.steps=11", "log.trace_step=11"})));
  EXPECT_STATUS(more, 0);
  EXPECT_EQ(more.lines("saved " + checkpoints("first") + "/step-00000011 ").size(), 1U) << more.err;
  EXPECT_EQ(more.err.find("log.trace_step"), std::string::npos) << more.err;
  EXPECT_TRUE(more.lines("all ").empty()) << more.err;
  EXPECT_NE(read_file(deck).find("\nsteps = 11\n"), std::string::npos) << "steps of this deck follow";
}

/// There is nothing to train, and the run has no checkpoint of its own.
TEST_F(Resume, OfAnothersCheckpointThatLeavesNoStepIsRefused) {
  for (const std::string steps : {"5", "3"}) {
    const Ended ended = run(weft(train("second", {"checkpoint.resume=" + step_5(), "run.steps=" + steps})));
    EXPECT_STATUS(ended, 2);
    EXPECT_EQ(ended
                  .lines("weft: error: --set: run.steps: " + steps +
                         " steps leave nothing to do (checkpoint.resume names " + step_5() +
                         ", which is of step 5); ")
                  .size(),
              1U)
        << ended.err;
    EXPECT_FALSE(fs::exists(run_dir("second")));
  }
}

/// Changed settings that change the curve are allowed, but reported.
TEST_F(Resume, WithOtherSettingsSaysWhich) {
  const Ended ended = run(weft_on(2, train("first", {"run.steps=12", "optimizer.weight_decay=0.25",
                                                     "log.every=1", "log.trace_step=10"})));
  EXPECT_STATUS(ended, 0);
  const auto untraced = ended.lines(
      "weft: warning: rank 0: --set: log.trace_step: step 10 is done already (the run goes on from step 10)");
  EXPECT_EQ(untraced.size(), 1U) << ended.err;
  const auto lines = ended.lines("settings changed since the checkpoint:");
  ASSERT_EQ(lines.size(), 1U) << ended.err;
  EXPECT_NE(lines[0].find("run.steps 10 -> 12"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("optimizer.weight_decay "), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find(" -> 0.25"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[0].find("log.every"), std::string::npos) << lines[0];
}

/// A key that changes the curve only in part is reported where it does.
TEST_F(Resume, WithSumsInAnotherOrderSaysWhy) {
  const std::string from = "checkpoint.resume=" + step_5();
  const Ended other =
      run(weft_on(2, train("second", {from, "parallel.mesh={ replica = 2 }", "schedule.accumulate=once",
                                      "schedule.disable=[\"order\", \"head\"]"})));
  EXPECT_STATUS(other, 0);
  const auto lines = other.lines("settings changed since the checkpoint:");
  ASSERT_EQ(lines.size(), 1U) << other.err;
  for (const char* change : {"parallel.mesh replica 1 -> 2", "schedule.disable [] -> [\"order\", \"head\"]",
                             "schedule.accumulate \"each\" -> \"once\""})
    EXPECT_NE(lines[0].find(change), std::string::npos) << change << " in " << lines[0];
  // The same places on these axes, and other passes, leave the curve as it is.
  const Ended same = run(weft_on(2, train("third", {from, "parallel.mesh={ pipe = 2, data = 1, tensor = 1 }",
                                                    "parallel.mode=zero1", "schedule.disable=order"})));
  EXPECT_STATUS(same, 0);
  EXPECT_TRUE(same.lines("settings changed since the checkpoint:").empty()) << same.err;
}

/// However the path to them is written, the run's own checkpoints continue its own curve.
TEST_F(Resume, ByPathFromItsOwnDirectoryCutsTheCurve) {
  const std::string other_spelling = checkpoints("first") + "/../checkpoints/./step-00000005/";
  const auto whole = curve(run_dir("first"));
  EXPECT_STATUS(run(weft_on(2, train("first", {"checkpoint.resume=" + other_spelling}))), 0);
  EXPECT_EQ(curve(run_dir("first")), whole);
}

/// Checkpoints keep where the run started from, and a working directory may have any bytes: here one that is
/// not UTF-8, and a tab.
TEST_F(Resume, ByARelativePathFromADirectoryOfAnyName) {
  const std::string dir = path("j\xf6rg\t");
  fs::create_directory(dir);
  fs::create_directory_symlink(run_dir("first"), dir + "/first");
  const auto from_there = [&](const std::string& steps) {
    std::vector<std::string> command{"bash", "-c", "cd \"$0\" && exec \"$@\"", dir};
    const auto training = weft_on(
        2, train("second", {"checkpoint.resume=first/checkpoints/step-00000005", "run.steps=" + steps}));
    command.insert(command.end(), training.begin(), training.end());
    return run(command);
  };
  EXPECT_STATUS(from_there("8"), 0);
  const Ended again = from_there("10");
  EXPECT_STATUS(again, 0);
  EXPECT_EQ(again.err.find("step-00000005"), std::string::npos) << "it goes on from its own: " << again.err;
  EXPECT_EQ(steps(run_dir("second")), (std::vector<std::int64_t>{6, 7, 8, 9, 10}));
}

TEST_F(Resume, OfSomethingElseIsRefused) {
  fs::create_directory(path("empty"));
  expect_refused({"checkpoint.resume=" + path("empty")}, 4, path("empty") + " is not a checkpoint");
  const std::string key = "--set: checkpoint.resume: ";
  expect_refused({"checkpoint.resume=" + path("nowhere")}, 2, key + "there is no " + path("nowhere"));
  expect_refused(
      {"checkpoint.resume=" + run_dir("first")}, 2,
      key + run_dir("first") + " is not a checkpoint; did you mean " + checkpoints("first") + "/latest?");
  expect_refused({"checkpoint.resume=" + path("train.bin")}, 4, path("train.bin"));
  fs::resize_file(step_5() + "/shard-00001.h5", 1000);
  expect_refused({"checkpoint.resume=" + step_5()}, 4, "shard-00001.h5");
}

TEST_F(Resume, PassesOverADamagedCheckpoint) {
  fs::resize_file(checkpoints("first") + "/step-00000010/shard-00000.h5", 1000);
  const auto whole = curve(run_dir("first"));
  const Ended ended = run(weft_on(2, train("first")));
  EXPECT_STATUS(ended, 0);
  const auto warnings = ended.lines("weft: warning:");
  ASSERT_EQ(warnings.size(), 2U) << ended.err;
  EXPECT_NE(warnings[0].find("a checkpoint is passed over: shard-00000.h5 of step-00000010 is truncated"),
            std::string::npos)
      << warnings[0];
  EXPECT_NE(warnings[1].find("step-00000010 is now "), std::string::npos) << warnings[1];
  EXPECT_TRUE(warnings[1].ends_with("/step-00000010.damaged")) << warnings[1];
  EXPECT_EQ(ended.lines("continues from step 5").size(), 1U) << ended.err;
  EXPECT_EQ(curve(run_dir("first")), whole);
  // The damaged checkpoint is evidence: it stands beside the one that took its name, and stays.
  EXPECT_EQ(fs::file_size(checkpoints("first") + "/step-00000010.damaged/shard-00000.h5"), 1000U);
  EXPECT_STATUS(run(weft({"checkpoint", "verify", checkpoints("first") + "/step-00000010"})), 0);
  EXPECT_STATUS(run(weft_on(2, train("first", {"run.steps=30", "checkpoint.every=2", "checkpoint.keep=1"}))),
                0);
  EXPECT_EQ(fs::file_size(checkpoints("first") + "/step-00000010.damaged/shard-00000.h5"), 1000U);
}

/// Beginning again would in time replace what somebody may still rescue.
TEST_F(Resume, StopsWhenNoCheckpointCanBeUsed) {
  for (const char* step : {"/step-00000005", "/step-00000010"}) {
    const std::string shard = checkpoints("first") + step + "/shard-00001.h5";
    fs::resize_file(shard, fs::file_size(shard) - 1);
  }
  const std::string none = "/checkpoints holds checkpoints, and none of them can be used (shard-00001.h5";
  expect_stopped(none);
  fs::rename(step_5(), step_5() + ".damaged");
  expect_stopped(none);
  fs::rename(checkpoints("first") + "/step-00000010", checkpoints("first") + "/step-00000010.damaged");
  expect_stopped("none of them can be used (step-000000");
}

/// A run may begin again on purpose. What was there is then kept, however often.
TEST_F(Resume, NeverStartsOverBesideWhatIsThere) {
  const auto whole = curve(run_dir("first"));
  const std::string shard = "/step-00000010/shard-00001.h5";
  const std::string kept = contents(checkpoints("first"))[checkpoints("first") + shard];
  ASSERT_FALSE(kept.empty());
  for (const char* old : {".old", ".old-2"}) {
    const Ended ended = run(weft_on(2, train("first", {"checkpoint.resume=never", "checkpoint.every=5"})));
    EXPECT_STATUS(ended, 0);
    EXPECT_TRUE(ended.lines("continues from").empty()) << ended.err;
    EXPECT_EQ(
        ended.lines("the checkpoints of an earlier run were moved to " + checkpoints("first") + old).size(),
        1U)
        << ended.err;
    EXPECT_EQ(curve(run_dir("first")), whole);
    EXPECT_TRUE(fs::exists(checkpoints("first") + old + "/step-00000010/manifest.json"));
    EXPECT_TRUE(fs::exists(run_dir("first") + "/metrics.jsonl" + old));
  }
  const std::string old = checkpoints("first") + ".old";
  EXPECT_TRUE(contents(old)[old + shard] == kept) << "the first run's checkpoints have changed";
}

/// A directory that cannot be listed is not one without checkpoints.
TEST_F(Resume, OfADirectoryThatCannotBeListedIsRefused) {
  fs::rename(checkpoints("first"), path("elsewhere"));
  write_file(checkpoints("first"), "not a directory");
  expect_stopped("cannot list " + checkpoints("first"));
}

/// A flipped bit shows when the bytes are read, on the rank that reads them.
TEST_F(Resume, GoesBackWhenAShardIsDamagedInside) {
  flip_bit(checkpoints("first") + "/step-00000010/shard-00001.h5", 0.5);
  const auto whole = curve(run_dir("first"));
  const Ended ended = run(weft_on(3, train("first")));
  EXPECT_STATUS(ended, 0);
  const auto warnings = ended.lines("weft: warning:");
  ASSERT_EQ(warnings.size(), 2U) << ended.err;
  EXPECT_NE(warnings[0].find("shard-00001.h5 is damaged"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("going back to " + step_5()), std::string::npos) << warnings[0];
  EXPECT_EQ(ended.lines("continues from step 5").size(), 1U) << ended.err;
  EXPECT_NE(warnings[1].find("is now " + checkpoints("first") + "/step-00000010.damaged"), std::string::npos)
      << warnings[1];
  EXPECT_EQ(curve(run_dir("first")), whole);
  // By its name the damaged checkpoint is refused, and so is the last one that is left.
  flip_bit(step_5() + "/shard-00000.h5", 0.7);
  expect_refused({"checkpoint.resume=" + step_5()}, 4, "shard-00000.h5 is damaged");
  // Nothing is set aside where nothing is left to go on from.
  flip_bit(checkpoints("first") + "/step-00000010/shard-00000.h5", 0.7);
  expect_stopped("shard-00000.h5 is damaged");
  EXPECT_TRUE(fs::exists(checkpoints("first") + "/step-00000010"));
}

/// checkpoint.resume = PATH says where a run starts. What the run has made since is not thrown away.
TEST_F(Resume, ByPathStartsARunAndDoesNotRestartIt) {
  const std::string from = "checkpoint.resume=" + step_5();
  ASSERT_EQ(run(weft_on(2, train("second", {from, "run.steps=7"}))).status, 0);
  const Ended again = run(weft_on(2, train("second", {from, "run.steps=9"})));
  EXPECT_STATUS(again, 0);
  const auto from_7 = again.lines("continues from step 7");
  ASSERT_EQ(from_7.size(), 1U) << again.err;
  EXPECT_TRUE(from_7[0].ends_with(" s from " + checkpoints("second") + "/step-00000007")) << from_7[0];
  // Continued without the path, its checkpoints are still those of a run that started there.
  ASSERT_EQ(run(weft_on(2, train("second", {"run.steps=11"}))).status, 0);
  const Ended third = run(weft_on(2, train("second", {from, "run.steps=12"})));
  EXPECT_EQ(third.lines("continues from step 11").size(), 1U) << third.err;
  // Another path is another start: what is there is kept beside it.
  const Ended other = run(weft_on(
      2, train("second", {"checkpoint.resume=" + checkpoints("first") + "/step-00000010", "run.steps=11"})));
  EXPECT_STATUS(other, 0);
  EXPECT_EQ(other.lines("continues from step 10").size(), 1U) << other.err;
  EXPECT_TRUE(fs::exists(checkpoints("second") + ".old/step-00000012/manifest.json"));
}

/// Where a run has made checkpoints since it started from PATH, starting there again would lose them.
TEST_F(Resume, ByPathDoesNotRestartWhereItsOwnCheckpointsAreDamaged) {
  const std::string from = "checkpoint.resume=" + step_5();
  ASSERT_EQ(run(weft_on(2, train("second", {from, "run.steps=7"}))).status, 0);
  flip_bit(checkpoints("second") + "/step-00000007/shard-00001.h5", 0.5);
  const auto before = contents(run_dir("second"));
  const Ended again = run(weft_on(2, train("second", {from, "run.steps=9"})));
  EXPECT_STATUS(again, 4);
  const auto errors = again.lines("weft: error:");
  ASSERT_EQ(errors.size(), 1U) << again.err;
  EXPECT_NE(errors[0].find("holds checkpoints, and none that goes back to " + step_5() + " can be used"),
            std::string::npos)
      << errors[0];
  EXPECT_TRUE(contents(run_dir("second")) == before) << "the run directory has changed";
}

/// A start that is refused has renamed nothing, whatever it has found damaged before.
TEST_F(Resume, ThatIsRefusedLeavesDamagedCheckpointsWhereTheyAre) {
  flip_bit(checkpoints("first") + "/step-00000010/shard-00001.h5", 0.5);
  expect_refused({"run.seed=77"}, 2, "run.seed");
}

/// Weights alone are no damaged checkpoint.
TEST_F(Resume, OfWeightsAloneSetsNothingAside) {
  ASSERT_EQ(run(weft({"checkpoint", "export", step_5(), path("hf"), "--dtype", "f32"})).status, 0);
  // An import refuses a run's directory of checkpoints, which is known by the deck beside it.
  const std::string deck = run_dir("first") + "/deck.toml";
  std::filesystem::rename(deck, path("kept"));
  ASSERT_EQ(run(weft({"checkpoint", "import", path("hf"), checkpoints("first")})).status, 0);
  std::filesystem::rename(path("kept"), deck);
  expect_stopped("holds no exp_avg of unit");
}

/// What a run starts from elsewhere has its checkpoints moved away, and it must not lie among them.
TEST_F(Resume, OfWhatWouldBeMovedAwayIsRefused) {
  const std::string below = checkpoints("first") + "/good/step-00000005", link = path("best");
  fs::create_directories(below);
  fs::copy(step_5(), below, fs::copy_options::recursive);
  fs::create_directory_symlink(step_5(), link);
  for (const std::string& from : {below, link})
    expect_refused({"checkpoint.resume=" + from}, 2,
                   "checkpoint.resume: " + from + " is in " + checkpoints("first") + " (which is moved to ");
  // In another run's directory nothing is moved.
  EXPECT_STATUS(run(weft_on(2, train("second", {"checkpoint.resume=" + below, "run.steps=6"}))), 0);
}

/// A save that was interrupted may leave the newest checkpoint under another name. A run that goes on from it
/// must find it again when it has to go back.
TEST_F(Resume, GivesTheCheckpointOfAnInterruptedReplacementItsNameBack) {
  const std::string newest = checkpoints("first") + "/step-00000010";
  fs::rename(newest, newest + ".replaced");
  const Ended ended = run(weft_on(2, train("first", {"run.steps=11", "checkpoint.final=false"})));
  EXPECT_STATUS(ended, 0);
  EXPECT_EQ(ended.lines("continues from step 10").size(), 1U) << ended.err;
  EXPECT_TRUE(fs::exists(newest + "/manifest.json"));
  EXPECT_FALSE(fs::exists(newest + ".replaced"));
}

#ifdef WEFT_FAULTS_LIBRARY
/// A file that one rank does not see, and rank 0 has seen, says nothing about the checkpoint: the run must
/// not go back to an older one for it, and rename this one.
TEST_F(Resume, AFileThatIsMissingOnOneRankIsNoDamage) {
  for (const char* call : {"newfstatat", "openat"}) {
    SCOPED_TRACE(call);
    const auto before = contents(run_dir("first"));
    std::vector<std::string> command =
        with_fault(weft(train("first")), run_dir("first"), "1",
                   std::string(call) + "\t1\t./checkpoints/step-00000010/shard-00001.h5", ENOENT);
    command.insert(command.begin(), {WEFT_MPIRUN, "-n", "2"});
    const Ended ended = run(command);
    EXPECT_STATUS(ended, 4);
    const auto errors = ended.lines("weft: error:");
    ASSERT_EQ(errors.size(), 1U) << ended.err;
    for (const char* part : {"rank 1", "shard-00001.h5", "rank 0 has just seen all files"})
      EXPECT_NE(errors[0].find(part), std::string::npos) << errors[0];
    EXPECT_TRUE(contents(run_dir("first")) == before) << "the run directory has changed";
  }
  EXPECT_STATUS(run(weft_on(2, train("first"))), 0);
}

/// Each look at a file of a checkpoint may take long, and there are as many as ranks that saved.
TEST_F(Resume, LooksAtTheFilesOfTheNewestAlone) {
  const std::string log = path("calls");
  const Ended ended = run(with_faults(weft(train("first", {"run.steps=12", "checkpoint.keep=100"})),
                                      run_dir("first"), {"WEFT_FAULTS_LOG=" + log}));
  EXPECT_STATUS(ended, 0);
  EXPECT_EQ(ended.lines("continues from step 10").size(), 1U) << ended.err;
  std::ifstream calls(log);
  int newest = 0, older = 0;
  for (std::string line; std::getline(calls, line);) {
    newest += line.find("/step-00000010/shard-") != std::string::npos;
    older += line.find("/step-00000005/shard-") != std::string::npos;
  }
  EXPECT_GT(newest, 0);
  EXPECT_EQ(older, 0);
}
#endif

/// A job whose time is up before its first save leaves what the next one goes on from in its own directory.
TEST_F(Resume, ByPathStoppedBeforeTheFirstSaveCanGoOn) {
  const std::string from = "checkpoint.resume=" + step_5();
  fs::create_directory(run_dir("second"));
  write_file(run_dir("second") + "/STOP", "");
  EXPECT_STATUS(run(weft_on(2, train("second", {from}))), 5);
  EXPECT_TRUE(fs::exists(checkpoints("second") + "/step-00000005/manifest.json"));
  fs::remove_all(run_dir("first"));
  const Ended again = run(weft_on(2, train("second", {from})));
  EXPECT_STATUS(again, 0);
  EXPECT_EQ(again.lines("continues from step 5").size(), 1U) << again.err;
}

/// A run goes on, on four ranks, from five steps of a run with two copies of a state that two ranks share.
TEST_F(Resume, OfReplicasOnAnyMesh) {
  const std::string mesh = "parallel.mesh={ replica = 2, data = 2 }";
  ASSERT_EQ(run(weft_on(4, train("hybrid", {mesh, "checkpoint.every=5"}))).status, 0);
  const std::string resume = "checkpoint.resume=" + checkpoints("hybrid") + "/step-00000005";
  EXPECT_STATUS(run(weft_on(4, train("again", {mesh, resume, "parallel.mode=zero1"}))), 0);
  EXPECT_EQ(curve(run_dir("again")), curve(run_dir("hybrid"), 5));
  EXPECT_STATUS(run(weft(train("alone", {resume}))), 0);
  EXPECT_STATUS(run(weft_on(3, train("three", {resume}))), 0);
  EXPECT_EQ(curve(run_dir("three")), curve(run_dir("alone")));
  EXPECT_STATUS(run(weft({"checkpoint", "verify", checkpoints("hybrid") + "/latest"})), 0);
}

TEST_F(Resume, OnOtherRanksAndModesGivesTheSameBits) {
  const auto expected = curve(run_dir("first"), 5);
  const std::vector<std::pair<int, std::string>> layouts{
      {1, "fsdp"}, {3, "fsdp"}, {3, "ddp"}, {2, "zero1"}, {1, "zero2"}};
  for (const auto& [ranks, mode] : layouts) {
    const std::string name = mode + std::to_string(ranks);
    SCOPED_TRACE(name);
    const auto arguments = train(name, {"parallel.mode=" + mode, "checkpoint.resume=" + step_5()});
    EXPECT_STATUS(run(ranks == 1 ? weft(arguments) : weft_on(ranks, arguments)), 0);
    EXPECT_EQ(curve(run_dir(name)), expected);
  }
}

}  // namespace
}  // namespace weft::test
