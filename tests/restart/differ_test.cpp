// Tests ranks that were given different things, and data that change: the run is refused, with the name of
// what differs.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class Differ : public Workspace {
 protected:
  /// Two ranks, the second of which has `sets` besides, end with status 2 and one line that has each of
  /// `texts`, and leave no checkpoint.
  void expect_refused(const std::vector<std::string>& sets, const std::vector<std::string>& texts) const {
    const Ended ended = run(weft_each({train("run"), train("run", sets)}));
    expect_one_line(ended, texts);
    EXPECT_FALSE(fs::exists(checkpoints("run"))) << "something was saved";
  }
  static void expect_one_line(const Ended& ended, const std::vector<std::string>& texts, int status = 2) {
    EXPECT_STATUS(ended, status);
    const auto errors = ended.lines("weft: error:");
    ASSERT_EQ(errors.size(), 1U) << ended.err;
    for (const std::string& text : texts)
      EXPECT_NE(errors[0].find(text), std::string::npos) << text << "\n" << errors[0];
  }
  /// A command for two ranks with different working directories, path("here") and path("there").
  std::vector<std::string> here_and_there(const std::vector<std::string>& sets) const {
    std::vector<std::string> arguments = train("run", sets);
    for (std::string& argument : arguments)
      if (argument.starts_with("run.dir=")) argument = "run.dir=relative";
    std::vector<std::string> command = weft_each({arguments, arguments});
    const auto colon = std::find(command.begin(), command.end(), ":");
    command.insert(colon + 3, {"-wdir", path("there")});
    command.insert(command.begin() + 3, {"-wdir", path("here")});
    return command;
  }
  /// Runs two ranks. The second runs a copy of the program in which the bit `at` was flipped; npos: none was.
  Ended with_copy(std::size_t at, const std::vector<std::string>& sets = {}) const {
    const std::string program = weft({})[0];
    std::string bytes = contents_of(program);
    if (at != std::string::npos) bytes.at(at) = static_cast<char>(bytes[at] ^ 1);
    write_file(path("weft"), bytes);
    fs::permissions(path("weft"), fs::perms::owner_all);
    std::vector<std::string> command = weft_each({train("run"), train("run", sets)});
    *std::find(std::find(command.begin(), command.end(), ":"), command.end(), program) = path("weft");
    return run(command);
  }
  static std::string contents_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Flips a bit of a token, so that the file is as long as before and its header is whole.
  void damage_body(const std::string& file) const { flip_bit(file, 0.5); }
  /// Makes token files of other text, with fewer tokens.
  void make_other_data() const {
    write_file(path("other.txt"), "the sea is grey. " + std::string(3000, 'x') + "\n\nrain falls.\n");
    const Ended tokenized = run(weft({"data", "tokenize", path("other.txt"), "--train", path("other.bin")}));
    ASSERT_EQ(tokenized.status, 0) << tokenized.err;
  }
};

TEST_F(Differ, DecksAreRefusedByKeyAndRank) {
  expect_refused({"optimizer.lr=0.002"}, {"rank 1: optimizer.lr is 0.002", "on rank 0", "different decks"});
  expect_refused({"run.seed=77"}, {"rank 1: run.seed is 77"});
  expect_refused({"checkpoint.every=3"}, {"rank 1: checkpoint.every is 3, and "});
  expect_refused({"run.steps=8", "model.norm_eps=1e-6"}, {"run.steps is 8", "model.norm_eps is 1e-06"});
  expect_refused({"run.dir=" + run_dir("elsewhere")}, {"rank 1: run.dir is "});
}

TEST_F(Differ, ThreadsAreRefused) {
  std::vector<std::string> command = weft_each({train("run"), train("run")});
  const auto colon = std::find(command.begin(), command.end(), ":");
  command.insert(colon + 3, {"-x", "OMP_NUM_THREADS=2"});
  const Ended ended = run(command);
  expect_one_line(ended, {"rank 1: the number of threads (OMP_NUM_THREADS) is 2, and 1 on rank 0"});
}

TEST_F(Differ, TokenFilesAreComparedByContent) {
  make_other_data();
  expect_refused({"data.train=" + path("other.bin")},
                 {"rank 1: data.train is " + path("other.bin"), " tokens, fingerprint ", path("train.bin")});
  // A pattern stands for what each rank finds.
  fs::create_directory(path("here"));
  fs::create_directory(path("there"));
  for (const char* copy : {"here/a.bin", "here/b.bin", "there/a.bin"})
    fs::copy_file(path("train.bin"), path(copy));
  expect_one_line(run(weft_each({train("run", {"data.train=" + path("here/*.bin")}),
                                 train("run", {"data.train=" + path("there/?.bin")})})),
                  {"rank 1: the number of files of data.train is 1, and 2 on rank 0"});
  // The same content under another path is the same data.
  fs::copy_file(path("train.bin"), path("copy.bin"));
  const Ended ended = run(weft_each({train("run"), train("run", {"data.train=" + path("copy.bin")})}));
  EXPECT_STATUS(ended, 0);
}

/// The second rank's copy has another bit in its last tensor, model.norm.weight.
TEST_F(Differ, WeightsToStartFromAreComparedByContent) {
  EXPECT_STATUS(run(weft(train("first", {"run.steps=2"}))), 0);
  EXPECT_STATUS(run(weft({"checkpoint", "export", checkpoints("first") + "/latest", path("hf")})), 0);
  for (const char* copy : {"same", "other"}) fs::copy(path("hf"), path(copy));
  flip_bit(path("other") + "/model.safetensors", 0.9999);
  const auto from = [&](const std::string& weights) {
    return train("run", {"run.steps=2", "model.init=" + path(weights)});
  };
  expect_one_line(run(weft_each({from("hf"), from("other")})),
                  {"rank 1: model.init is " + path("other") + " (fingerprint ",
                   ", and " + path("hf") + " (fingerprint ", "copy the same weights to all hosts"});
  EXPECT_FALSE(fs::exists(checkpoints("run"))) << "something was saved";
  EXPECT_STATUS(run(weft_each({from("hf"), from("same")})), 0);
}

TEST_F(Differ, ARunDirectoryThatIsNotSharedIsRefused) {
  fs::create_directory(path("here"));
  fs::create_directory(path("there"));
  // The run is refused without a save at its end, too, because a run that is stopped saves.
  for (const char* final : {"checkpoint.final=true", "checkpoint.final=false"})
    expect_one_line(run(here_and_there({final, "run.collective_timeout=4s"})),
                    {"rank 1: ", path("there") + "/relative", "is not the run directory of rank 0"});
}

/// It is no mistake in the deck when one rank's storage refuses.
TEST_F(Differ, ARunDirectoryThatCannotBeReadIsTheMachinesFault) {
  fs::create_directory(path("here"));
  fs::create_directory(path("there"));
  fs::create_symlink(path("there") + "/relative", path("there") + "/relative");
  expect_one_line(run(here_and_there({"run.collective_timeout=4s"})),
                  {"rank 1: cannot read ", path("there") + "/relative/lock", "Too many levels"}, 6);
}

TEST_F(Differ, BuildsAreRefusedThatVersionAndCommitDoNotTellApart) {
  EXPECT_STATUS(with_copy(std::string::npos), 0);
  const std::string note("\4\0\0\0\24\0\0\0\3\0\0\0GNU\0", 16);  // this stands before the linker's hash
  const std::size_t at = contents_of(weft({})[0]).find(note);
  ASSERT_NE(at, std::string::npos);
  expect_one_line(with_copy(at + note.size()), {"rank 1: weft's build is ", "on rank 0 (the ranks differ)"});
}

/// Another version may read the deck in another way. So the message must say that the versions differ.
TEST_F(Differ, VersionsAreComparedBeforeDecks) {
  const std::string version = run(weft({"--version"})).out;  // "weft 0.2.0 (a627847835e5)\nbuilt with ..."
  const std::size_t open = version.find('('), close = version.find(')');
  ASSERT_LT(open, close) << version;
  const std::size_t at = contents_of(weft({})[0]).find(version.substr(open + 1, close - open - 1));
  ASSERT_NE(at, std::string::npos);
  expect_one_line(with_copy(at, {"data.key_of_a_newer_version=1"}), {"rank 1: weft's version is "});
}

TEST_F(Differ, DataThatChangedSinceTheCheckpointAreRefused) {
  ASSERT_EQ(run(weft_on(2, train("run"))).status, 0);
  make_other_data();
  fs::rename(path("train.bin"), path("original.bin"));
  fs::copy_file(path("other.bin"), path("train.bin"));
  const auto before = contents(run_dir("run"));
  expect_one_line(
      run(weft_on(2, train("run", {"run.steps=12"}))),
      {"data.train: " + path("train.bin") + " has ", "was trained on", "data.allow_change = true"});
  expect_one_line(run(weft(train("run", {"run.steps=12", "data.synthetic=true"}))),
                  {"--set: data.synthetic: the run would train on synthetic tokens, and the checkpoint ",
                   "was trained on " + path("train.bin"), "data.allow_change = true"});
  EXPECT_TRUE(contents(run_dir("run")) == before) << "the run directory has changed";
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=12", "data.allow_change=true"}))), 0);
  // With one more file, or one less, the order of the data would be another.
  fs::rename(path("train.bin"), path("second.bin"));
  const std::string more = "data.train=[\"" + path("second.bin") + "\", \"" + path("original.bin") + "\"]";
  expect_one_line(run(weft_on(2, train("run", {"run.steps=14", more}))),
                  {"names 2 files", "was trained on 1"});
}

/// The curve does not depend on them, but a checkpoint says which they were.
TEST_F(Differ, ValidationFilesMayBeginAndEndButNotChange) {
  make_other_data();
  const std::string other = "data.valid=" + path("other.bin");
  const std::string both = "data.valid=[\"" + path("valid.bin") + "\", \"" + path("other.bin") + "\"]";
  ASSERT_EQ(run(weft(train("run"))).status, 0);
  const auto before = contents(run_dir("run"));
  expect_one_line(run(weft(train("run", {"run.steps=12", other}))),
                  {"data.valid: " + path("other.bin") + " has ", "was trained on " + path("valid.bin")});
  expect_one_line(run(weft(train("run", {"run.steps=12", both}))),
                  {"data.valid names 2 files", "was trained on 1"});
  EXPECT_TRUE(contents(run_dir("run")) == before) << "the run directory has changed";
  copy_checkpoints("run", "without");
  EXPECT_STATUS(run(weft(train("run", {"run.steps=12", other, "data.allow_change=true"}))), 0);
  EXPECT_STATUS(run(weft(train("without", {"run.steps=12", "data.valid=[]", "data.valid_every=0",
                                           "data.valid_sequences=0"}))),
                0);
  EXPECT_STATUS(run(weft(train("without", {"run.steps=14", other}))), 0);
  EXPECT_EQ(last_step(run_dir("run")), 12);
  EXPECT_EQ(last_step(run_dir("without")), 14);
}

/// A body that is not what was written is found while the run trains.
TEST_F(Differ, ADamagedBodyEndsTheRun) {
  damage_body(path("train.bin"));
  for (const int ranks : {1, 2}) {
    const Ended ended = run(ranks == 1 ? weft(train("run")) : weft_on(ranks, train("run")));
    expect_one_line(
        ended, {"the token file " + path("train.bin") + " is damaged (the checksum of its body is wrong)"});
  }
}

TEST_F(Differ, ADamagedBodyOfOneRanksCopyEndsTheRun) {
  fs::copy_file(path("train.bin"), path("copy.bin"));
  damage_body(path("copy.bin"));
  expect_refused({"data.train=" + path("copy.bin")}, {"the token file " + path("copy.bin") + " is damaged"});
}

/// A body that was read whole once is not read again, unless the file has changed.
TEST_F(Differ, BodiesAreVerifiedOnceARun) {
  ASSERT_EQ(run(weft(train("run"))).status, 0);
  const std::string latest = checkpoints("run") + "/step-00000010";
  const std::string manifest = contents(latest)[latest + "/manifest.json"];
  EXPECT_NE(manifest.find("\"verified\":\""), std::string::npos) << manifest;
  EXPECT_EQ(manifest.find("\"verified\":\"\""), std::string::npos) << manifest;
  damage_body(path("train.bin"));
  expect_one_line(run(weft(train("run", {"run.steps=12"}))), {"train.bin is damaged"});
}

#ifdef WEFT_FAULTS_LIBRARY
TEST_F(Differ, AWholeBodyIsNotReadAgain) {
  const std::string directory = fs::path(path("train.bin")).parent_path();
  /// How often a run to this step reads a piece of each token file's body.
  const auto reads = [&](int steps) {
    const std::string log = path("calls" + std::to_string(steps));
    const std::vector<std::string> command = weft(train("run", {"run.steps=" + std::to_string(steps)}));
    const Ended ended = run(with_faults(command, directory, {"WEFT_FAULTS_LOG=" + log}));
    EXPECT_STATUS(ended, 0);
    EXPECT_EQ(last_step(run_dir("run")), steps);
    std::map<std::string, int> reads_of{{"./train.bin", 0}, {"./valid.bin", 0}};
    std::ifstream calls(log);
    for (std::string call, number, file; calls >> call >> number >> file;)
      if (call == "pread64" && reads_of.contains(file)) ++reads_of[file];
    return reads_of;
  };
  for (const auto& [file, times] : reads(4)) EXPECT_GT(times, 0) << file;
  for (const auto& [file, times] : reads(6)) EXPECT_EQ(times, 0) << file;
  fs::last_write_time(path("train.bin"), fs::file_time_type::clock::now());
  for (const auto& [file, times] : reads(8)) EXPECT_EQ(times > 0, file == "./train.bin") << file;
}
#endif

}  // namespace
}  // namespace weft::test
