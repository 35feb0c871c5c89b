// Tests the commands of a first day one after the other, from text to sampled text.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

class Workflow : public Workspace {
 protected:
  std::vector<std::string> sampling(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"sample",   "--checkpoint", checkpoints("run"), "--tokenizer", "byte",
                                       "--prompt", "the "};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Ended sample(const std::vector<std::string>& more) const { return run(weft(sampling(more))); }
};

/// The text repeats one sentence, so that some hundred steps are enough to learn it by heart.
TEST_F(Workflow, TokenizeTrainListVerifySample) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "the ship sails over the grey sea while rain falls.\n\n";
  write_file(path("sea.txt"), text);
  const Ended tokenized = run(weft({"data", "tokenize", path("sea.txt"), "--train", path("sea.train.bin"),
                                    "--valid", path("sea.valid.bin"), "--valid-fraction", "0.1"}));
  EXPECT_STATUS(tokenized, 0);
  EXPECT_NE(tokenized.out.find("byte (257 ids)"), std::string::npos) << tokenized.out;
  const Ended shown =
      run(weft({"data", "show", path("sea.train.bin"), "--tokenizer", "byte", "--first", "60"}));
  EXPECT_STATUS(shown, 0);
  EXPECT_NE(shown.out.find("the ship sails over the grey sea"), std::string::npos) << shown.out;

  EXPECT_STATUS(run(weft_on(2, train("run", {"data.train=" + path("sea.train.bin"),
                                             "data.valid=" + path("sea.valid.bin"), "run.steps=240",
                                             "debug.hash_every=0", "checkpoint.every=120", "data.seq=64",
                                             "optimizer.lr=3e-3"}))),
                0);
  const auto lines = metrics(run_dir("run"));
  ASSERT_FALSE(lines.empty());
  const auto& last = lines.back();
  EXPECT_EQ(last.at("kind"), "valid");
  EXPECT_LT(last.at("bits_per_byte"), 0.1) << "the sentence was not learnt";

  const Ended listed = run(weft({"checkpoint", "ls", checkpoints("run")}));
  EXPECT_STATUS(listed, 0);
  EXPECT_EQ(count(listed.out, "whole"), 2U) << listed.out;
  EXPECT_EQ(count(listed.out, "latest"), 1U) << listed.out;
  EXPECT_LT(listed.out.find("step-00000240"), listed.out.find("step-00000120")) << "newest first\n"
                                                                                << listed.out;
  EXPECT_STATUS(run(weft({"checkpoint", "verify", checkpoints("run") + "/latest"})), 0);

  const Ended written = sample({"--tokens", "46", "--temperature", "0"});
  EXPECT_STATUS(written, 0);
  EXPECT_EQ(written.out, "the ship sails over the grey sea while rain falls.\n");
  const Ended drawn = sample({"--tokens", "20", "--seed", "3"});
  EXPECT_STATUS(drawn, 0);
  EXPECT_GT(drawn.out.size(), 4U) << drawn.out;
  EXPECT_EQ(sample({"--tokens", "20", "--seed", "3"}).out, drawn.out);

  for (const int ranks : {2, 3}) {
    const Ended piped = run(weft_on(ranks, sampling({"--tokens", "20", "--seed", "3"})));
    EXPECT_STATUS(piped, 0);
    EXPECT_EQ(piped.out, drawn.out) << ranks << " ranks";
  }
  // Two ranks share each layer, and two others have the other layers.
  const Ended shared = run(weft_on(4, sampling({"--tokens", "46", "--temperature", "0", "--tensor", "2"})));
  EXPECT_STATUS(shared, 0);
  EXPECT_EQ(shared.out, written.out);
  // Two ranks share each sequence.
  const Ended parts = run(weft_on(2, sampling({"--tokens", "46", "--temperature", "0", "--context", "2"})));
  EXPECT_STATUS(parts, 0);
  EXPECT_EQ(parts.out, written.out);
  const Ended uneven = run(weft_on(2, sampling({"--tensor", "3"})));
  EXPECT_STATUS(uneven, 2);
  EXPECT_EQ(uneven.lines("weft: error: --tensor 3: 2 ranks do not divide").size(), 1U) << uneven.err;
  const Ended none = run(weft_on(2, {"sample", "--checkpoint", path("none"), "--tokenizer", "byte"}));
  EXPECT_STATUS(none, 2);
  EXPECT_EQ(none.lines("weft: error:").size(), 1U) << none.err;
}

/// A run without checkpoints is no error; a directory that is no run's has been misspelt.
TEST_F(Workflow, ChecksThatWhatIsListedIsARun) {
  EXPECT_STATUS(run(weft(train("run", {"run.steps=2", "checkpoint.final=false"}))), 0);
  std::filesystem::create_directory(path("other"));
  const auto list = [&](const std::string& dir) { return run(weft({"checkpoint", "ls", dir})); };
  for (const std::string& dir :
       {run_dir("run"), run_dir("run") + "/", checkpoints("run"), checkpoints("run") + "/"}) {
    const Ended empty = list(dir);
    EXPECT_STATUS(empty, 0);
    EXPECT_TRUE(empty.out.starts_with("no checkpoints in " + checkpoints("run"))) << empty.out;
  }
  const std::vector<std::pair<std::string, std::string>> no_runs{
      {path("other"), path("other") + " is no run (it has neither checkpoints nor a deck.toml); "},
      {path("none"), "cannot list the checkpoints of " + path("none") + " (there is no such directory); "},
      {path("none") + "/checkpoints", "/checkpoints (there is no such directory); "},
      {path("text.txt"), path("text.txt") + " (it is a file); "}};
  for (const auto& [dir, text] : no_runs) {
    const Ended ended = list(dir);
    EXPECT_STATUS(ended, 2);
    ASSERT_EQ(ended.lines("weft: error:").size(), 1U) << ended.err;
    EXPECT_NE(ended.err.find(text + "name a run's directory"), std::string::npos) << ended.err;
    EXPECT_EQ(ended.out, "");
  }
  EXPECT_STATUS(run(weft(train("run", {"run.steps=2"}))), 0);
  for (const std::string& dir : {run_dir("run"), checkpoints("run")}) {
    const Ended listed = list(dir);
    EXPECT_STATUS(listed, 0);
    EXPECT_NE(listed.out.find("step-00000002"), std::string::npos) << listed.out;
  }
}

/// Kokkos would ask for OMP_PROC_BIND; whoever starts a run by hand gets Weft's lines alone.
TEST_F(Workflow, OnlyWeftSpeaksWithoutALauncher) {
  std::vector<std::string> command{"env",        "-u", "OMP_PROC_BIND",          "-u",
                                   "OMP_PLACES", "-u", "KOKKOS_DISABLE_WARNINGS"};
  const auto started = weft(train("run", {"run.steps=1", "optimizer.warmup=1", "data.valid_every=1"}));
  command.insert(command.end(), started.begin(), started.end());
  const Ended ended = run(command);
  EXPECT_STATUS(ended, 0);
  EXPECT_EQ(ended.err.find("Kokkos"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("OMP_"), std::string::npos) << ended.err;
}

TEST_F(Workflow, VerifyNamesWhatIsDamaged) {
  EXPECT_STATUS(run(weft(train("run", {"run.steps=2"}))), 0);
  const std::string shard = checkpoints("run") + "/step-00000002/shard-00000.h5";
  std::string bytes = read_file(shard);
  bytes[bytes.size() / 2] ^= 1;
  write_file(shard, bytes);
  std::vector<std::string> verify{"checkpoint", "verify", checkpoints("run") + "/latest"};
  for (const char* way : {"direct", "cached"}) {
    SCOPED_TRACE(way);
    const Ended verified = run(weft(verify));
    EXPECT_STATUS(verified, 4);
    const auto errors = verified.lines("weft: error:");
    ASSERT_EQ(errors.size(), 1U) << verified.err;
    EXPECT_NE(errors[0].find("shard-00000.h5"), std::string::npos) << errors[0];
    verify.emplace_back("--cached");
  }
}

TEST_F(Workflow, DeckPrintsWhatItReads) {
  const Ended printed =
      run(weft({"deck", deck(), "--set", "run.walltime=90m", "--set", "optimizer.lr=3e-4"}));
  EXPECT_STATUS(printed, 0);
  for (const char* line :
       {"walltime = \"1h30m\"", "lr = 0.0003", "dim = 64", "decay = \"constant\"", "mode = \"fsdp\""})
    EXPECT_EQ(count(printed.out, std::string("\n") + line + "\n"), 1U) << line << "\n" << printed.out;
  write_file(path("again.toml"), printed.out);
  const Ended again = run(weft({"deck", path("again.toml")}));
  EXPECT_STATUS(again, 0);
  EXPECT_EQ(again.out.substr(again.out.find('\n')), printed.out.substr(printed.out.find('\n')));
}

TEST_F(Workflow, SchemaHasEveryTable) {
  const Ended text = run(weft({"deck", "--schema"}));
  EXPECT_STATUS(text, 0);
  for (const char* table : {"[run]", "[model]", "[data]", "[optimizer]", "[parallel]", "[precision]",
                            "[schedule]", "[checkpoint]", "[log]"})
    EXPECT_EQ(count(text.out, table), 1U) << table;
  EXPECT_NE(text.out.find("global_batch           integer, 1 to 16777216; required"), std::string::npos)
      << text.out;
}

}  // namespace
}  // namespace weft::test
