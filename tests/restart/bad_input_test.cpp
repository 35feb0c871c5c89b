// Tests what happens when a user gets something wrong: one line from all ranks together, exit status 2, and
// nothing written.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class BadInput : public Workspace {
 protected:
  void expect_one_line(const Ended& ended, const std::string& text) const {
    EXPECT_STATUS(ended, 2);
    const auto errors = ended.lines("weft: error:");
    ASSERT_EQ(errors.size(), 1U) << ended.err;
    EXPECT_NE(errors[0].find(text), std::string::npos) << errors[0];
    EXPECT_FALSE(fs::exists(run_dir("run")));
  }
  void expect_refused(const std::vector<std::string>& sets, const std::string& text, int ranks = 2) const {
    SCOPED_TRACE(text);
    expect_one_line(run(weft_on(ranks, train("run", sets))), text);
  }
};

TEST_F(BadInput, TokenFiles) {
  expect_refused({"data.train=" + path("none.bin")},
                 "cannot open the token file " + path("none.bin") + " (No such file");
  expect_refused({"data.valid=" + path("none.bin")},
                 "cannot open the token file " + path("none.bin") + " (No such file");
  expect_refused({"data.train=" + path("text.txt")}, path("text.txt") + " is not a token file");
  expect_refused({"data.train=" + path("")}, "is not a token file (it is not a regular file)");
  write_file(path("empty.bin"), "");
  expect_refused({"data.train=" + path("empty.bin")}, "is not a token file (it is empty)");
  fs::copy(path("train.bin"), path("short.bin"));
  fs::resize_file(path("short.bin"), 5000);
  expect_refused({"data.train=" + path("short.bin")}, path("short.bin") + " is truncated (5000 bytes");
  fs::resize_file(path("short.bin"), 100);
  expect_refused({"data.train=" + path("short.bin")}, path("short.bin") + " is truncated (100 bytes");
}

TEST_F(BadInput, TokenFilesThatDoNotFitTheModel) {
  expect_refused({"model.vocab=256"}, "has 257 tokens (model.vocab is 256)");
  expect_refused({"data.seq=100000"}, "(data.seq is 100000");
}

TEST_F(BadInput, CommandsForData) {
  const auto before = contents(path(""));
  expect_one_line(
      run(weft({"data", "tokenize", path("text.txt"), "--train", path("text.txt")})),
      "the training file " + path("text.txt") + " and the text " + path("text.txt") + " are the same file");
  expect_one_line(run(weft({"data", "tokenize", path("text.txt"), "--train", deck()})),
                  deck() +
                      " is there, and is no token file (--train and --valid replace what they name); "
                      "choose another name, or add --force");
  expect_one_line(run(weft({"data", "show", path("train.bin"), "--first=-5"})),
                  "--first: -5 is not a whole number from 0 to 2147483647");
  expect_one_line(run(weft({"data", "show", path("train.bin"), "--tokenizer", path("")})),
                  "(Is a directory)");
  const auto tokenize = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"data", "tokenize", path("text.txt"), "--train", path("new.bin")});
    return run(weft(more));
  };
  expect_one_line(tokenize({"--valid-fraction", "0.2"}),
                  "--valid-fraction has no effect (without --valid all documents are for training); name a "
                  "file by --valid, or leave it out");
  expect_one_line(
      tokenize({"--vocab", "300"}),
      "--vocab has no effect (the tokenizer 'byte' is not learnt); add --tokenizer sentencepiece, "
      "or leave it out");
  expect_one_line(tokenize({"--seed=-1"}), "--seed: -1 is not a whole number from 0 to 18446744073709551615");
  expect_one_line(tokenize({"--seed=18446744073709551615", "--vocab", "300"}), "--vocab has no effect");
  expect_one_line(tokenize({"--seed=18446744073709551616"}), "--seed: 18446744073709551616 is not a whole");
  expect_one_line(tokenize({"--model", path("new.model"), "--tokenizer", path("old.model")}),
                  "--model has no effect (the tokenizer '" + path("old.model") + "' is not learnt); ");
  const auto import_tokens = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"data", "import", path("text.txt"), "--tokenizer", "byte", "--train", path("new.bin")});
    return run(weft(more));
  };
  expect_one_line(import_tokens({}), path("text.txt") + " is of no format that is known");
  expect_one_line(import_tokens({"--raw", "3"}), "--raw: 3 not in {2,4}");
  expect_one_line(import_tokens({"--raw", "4", "--valid-fraction", "0.2"}), "--valid-fraction has no effect");
  expect_one_line(import_tokens({"--raw", "4"}), "which the tokenizer does not have (257 ids)");
  EXPECT_TRUE(contents(path("")) == before);
}

/// What a file stands in the way of is not made, and the file stays.
TEST_F(BadInput, RunDirectories) {
  const std::string file = path("text.txt");
  for (const std::string& dir : {file, file + "/x", file + "/x/y/"})
    expect_refused({"run.dir=" + dir}, "cannot be a run directory (" + file + " is not a directory); choose");
  EXPECT_TRUE(fs::is_regular_file(file));
  const std::string link = path("link");
  fs::create_symlink(path("nowhere"), link);
  for (const std::string& dir : {link, link + "/x"})
    expect_refused(
        {"run.dir=" + dir},
        dir + " cannot be a run directory (" + link + " is a link to nothing that is there); mount", 1);
}

/// Paths at which the system lets nobody look: a link to itself, and a name that is too long. (What a user
/// may not look into root may, who runs these tests.) A path below a file is one at which nothing is.
TEST_F(BadInput, WhatCannotBeLookedAt) {
  fs::create_symlink(path("loop"), path("loop"));
  const std::string fine = path(""), model = path("model"), hung = path("hung");
  fs::create_directories(hung + "/hang");
  fs::create_symlink(path("loop"), hung + "/hang/1");
  fs::create_directories(model);
  fs::create_symlink(path("loop"), model + "/config.json");
  for (const std::string& bad : {path("loop"), path(std::string(300, 'n'))}) {
    const std::string told = "cannot look at " + bad;
    expect_one_line(run(weft({"hang", bad})), told);
    expect_one_line(run(weft({"checkpoint", "import", bad})), told);
    expect_one_line(run(weft({"compare", bad, fine})), told);
    expect_one_line(run(weft({"compare", fine, bad})), told);
  }
  expect_one_line(run(weft({"hang", hung})), "cannot look at " + hung + "/hang/1 (Too many levels");
  expect_one_line(run(weft({"checkpoint", "import", model})), "cannot look at " + model + "/config.json");
  expect_refused({"model.init=" + model}, "cannot look at " + model + "/config.json", 1);
  expect_one_line(run(weft({"hang", deck() + "/x"})), "there is no " + deck() + "/x");
  expect_one_line(run(weft({"checkpoint", "import", deck() + "/x"})), "there is no " + deck() + "/x");
  expect_one_line(run(weft({"compare", deck() + "/x", fine})), deck() + "/x is not a directory");
}

TEST_F(BadInput, Ranks) {
  expect_refused({"data.global_batch=13"}, "13 sequences do not divide into microbatches of 1 on 2");
  expect_refused({"data.batch=3"}, "12 sequences do not divide into microbatches of 3 on 3", 3);
  expect_refused({"parallel.mesh.data=3"}, "2 ranks were started for 3 places");
}

TEST_F(BadInput, MoreThanTheMemoryOfTheHost) {
  // As many parameters as llama3_405b in few layers, because a plan is made; nothing is allocated.
  expect_refused({"model.dim=65536", "model.layers=8", "model.heads=512", "model.kv_heads=8",
                  "model.ffn=212992", "data.global_batch=2"},
                 "not enough memory: the run needs ");
}

/// The numbers at which each limit stands are in tests/unit/deck/limits_test.cpp. Decks are looked at before
/// ranks are: one rank alone is tried with the first.
TEST_F(BadInput, SizesThatNoKernelHolds) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> decks{
      {{"model.dim=2048"}, "model.heads: 4 heads of model.dim = 2048 are 512 wide"},
      {{"data.seq=16777216", "data.batch=256", "data.global_batch=512"}, "data.batch: 256 sequences of"},
      {{"data.seq=16777216", "model.heads=2048", "model.kv_heads=2", "model.dim=4096"}, "data.seq: 1 seq"},
      {{"data.seq=1048576", "data.batch=1024", "data.global_batch=2048", "model.ffn=16384",
        "model.layers=64"},
       "data.batch: 1024 sequences of data.seq = 1048576 are up to"},
      {{"model.dim=1048576", "model.heads=4096"}, "model.dim: 1048576 gives a block's attention"},
      {{"model.ffn=16777216", "model.dim=8192", "model.heads=64"}, "model.ffn: 16777216 gives a block's"},
      {{"model.vocab=1000000000", "model.dim=512"}, "model.vocab: 1000000000 gives an embedding"},
      {{"model.layers=65536", "data.global_batch=2048"}, "sequences are 1024 rounds of 65536 layers"}};
  expect_refused(decks[0].first, decks[0].second, 1);
  for (const auto& [sets, text] : decks) {
    expect_refused(sets, text);
    std::vector<std::string> plan{"plan", deck(), "--world", "2"};
    for (const std::string& set : sets) plan.insert(plan.end(), {"--set", set});
    expect_one_line(run(weft(plan)), text);
  }
}

TEST_F(BadInput, Decks) {
  expect_refused({"data.sec=3"}, "did you mean 'data.seq'");
  expect_refused({"model.kv_heads=3"}, "3 does not divide model.heads = 4");
  expect_one_line(run(weft_on(2, {"train", path("none.toml")})), "none.toml: cannot read the deck");
  write_file(path("broken.toml"), "[run]\nname = \"x\n");
  expect_one_line(run(weft_on(2, {"train", path("broken.toml")})), "broken.toml:2");
}

TEST_F(BadInput, CommandLine) {
  expect_one_line(run(weft_on(2, {"train"})), "DECK is required");
  expect_one_line(run(weft_on(2, {"train", deck(), "--sett", "run.steps=3"})), "--sett");
  expect_one_line(run(weft({"sample", "--checkpoint", path("none"), "--tokenizer", "byte", "--seed=-1"})),
                  "--seed: -1 is not a whole number from 0 to 18446744073709551615");
  expect_one_line(run(weft_on(2, {"tarin", deck()})),
                  "'tarin' is not a command (train, plan, advise, profile, deck, data, checkpoint, "
                  "sample, eval, compare, hang, study, manual, completion); did you mean 'train'?");
}

/// It is the machine's error, but a user learns of it in the same way. Of a long text, the first bytes are
/// refused long before the last.
TEST_F(BadInput, ADiskThatIsFullBehindStandardOutput) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"deck", WEFT_SOURCE_DIR "/inputs/quickstart.toml"},
                                             {"deck", "--schema"},
                                             {"plan", deck(), "--world", "2"},
                                             {"--help"},
                                             {"train", "--help"},
                                             {"--version"}}) {
    SCOPED_TRACE(arguments[0]);
    std::vector<std::string> command{"sh", "-c", R"(exec "$@" >/dev/full)", "sh"};
    std::ranges::copy(weft(arguments), std::back_inserter(command));
    const Ended ended = run(command);
    EXPECT_STATUS(ended, 6);
    const auto errors = ended.lines("weft: error:");
    ASSERT_EQ(errors.size(), 1U) << ended.err;
    EXPECT_NE(errors[0].find("cannot write standard output (No space left on device)"), std::string::npos)
        << errors[0];
  }
}

/// Environment variables for the programs that a test starts.
class Environment {
 public:
  explicit Environment(std::vector<std::pair<const char*, const char*>> variables)
      : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name, value, 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<const char*, const char*>> variables_;
};

/// A job in which srun and an MPI do not know each other: two processes, each of which believes that it is
/// alone. Open MPI keeps files of every process in one directory, which the process that ends first removes
/// while the other one makes it (as jobs beside each other do, see weft_test_environment); so each has a
/// directory of its own.
std::vector<std::string> silent_singletons(const std::vector<std::string>& command,
                                           const std::string& directory) {
  std::vector<std::string> shell{"sh", "-c",
                                 R"(d=$1; shift
task() {
  export SLURM_PROCID=$1 OMPI_MCA_orte_tmpdir_base=$d/$1 PRTE_MCA_prte_tmpdir_base=$d/$1; shift; exec "$@"
}
(task 1 "$@") & (task 0 "$@"); status=$?; wait $! || exit $?; exit $status)",
                                 "sh", directory};
  shell.insert(shell.end(), command.begin(), command.end());
  return shell;
}

TEST_F(BadInput, SlurmTasksThatMpiDoesNotSee) {
  const std::string text = "Slurm started 2 tasks but MPI sees 1 rank(s)";
  {
    const Environment step({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_NTASKS", "9"}});
    expect_one_line(run(silent_singletons(weft(train("run")), path("first"))), text);
  }
  const Environment step({{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}});
  expect_one_line(run(silent_singletons(weft(train("run")), path("second"))), text);
}

/// The ranks speak MPI, but are not as many as the tasks. mpirun's own variables are hidden, because Weft
/// would take its word.
TEST_F(BadInput, SlurmTasksThatAreNotTheRanks) {
  const Environment step({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  auto command = weft_on(2, train("run"));
  const std::vector<std::string> as_srun{
      "sh", "-c",
      R"(export SLURM_PROCID=$PMIX_RANK; unset OMPI_COMM_WORLD_SIZE PRTE_LAUNCHED HYDI_CONTROL_FD MPI_LOCALNRANKS; exec "$@")",
      "sh"};
  command.insert(command.begin() + 3, as_srun.begin(), as_srun.end());
  expect_one_line(run(command), "Slurm started 4 tasks but MPI sees 2 rank(s)");
}

/// Inside sbatch, mpirun decides how many ranks there are.
TEST_F(BadInput, TheJobsTaskCountDoesNotBindMpirun) {
  const Environment job({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}});
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=2"}))), 0);
  EXPECT_EQ(steps(run_dir("run")), steps_to(2));
}

}  // namespace
}  // namespace weft::test
