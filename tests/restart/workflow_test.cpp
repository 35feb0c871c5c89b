// Tests the commands of a first day one after the other, from text to sampled text.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/affinity.hpp"
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

  const Ended trained = run(
      weft_on(2, train("run", {"data.train=" + path("sea.train.bin"), "data.valid=" + path("sea.valid.bin"),
                               "run.steps=240", "debug.hash_every=0", "checkpoint.every=120", "data.seq=64",
                               "optimizer.lr=3e-3", "model.vocab=280"})));
  EXPECT_STATUS(trained, 0);
  EXPECT_EQ(trained.lines("data.train: ").size(), 1U) << trained.err;
  EXPECT_EQ(trained.lines("weft: warning: rank 0: the run begins a second epoch in step ").size(), 1U)
      << trained.err;
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

  // Ids of another tokenizer fit the model, and would make no sense. The data tell, as long as they are
  // there.
  EXPECT_STATUS(run(weft({"data", "tokenize", path("sea.txt"), "--train", path("pieces.bin"), "--tokenizer",
                          "sentencepiece", "--vocab", "280", "--model", path("sea.model")})),
                0);
  const auto with_pieces = [&] {
    std::vector<std::string> arguments = sampling({"--tokens", "1"});
    *std::find(arguments.begin(), arguments.end(), "byte") = path("sea.model");
    return run(weft_on(2, arguments));
  };
  const Ended refused = with_pieces();
  EXPECT_STATUS(refused, 2);
  EXPECT_EQ(refused.lines("weft: error:").size(), 1U) << refused.err;
  EXPECT_NE(refused.err.find("--tokenizer " + path("sea.model") +
                             ": not that of the data that the checkpoint was trained on (" +
                             path("sea.train.bin") + " was written by another tokenizer (byte, "),
            std::string::npos)
      << refused.err;
  std::filesystem::remove(path("sea.train.bin"));
  EXPECT_STATUS(with_pieces(), 0);
}

/// The loss of a checkpoint is the one that its run computed, by whatever ranks.
TEST_F(Workflow, EvaluatesAsTheRunDid) {
  EXPECT_STATUS(run(weft_on(2, train("run", {"run.steps=5", "data.batch=2"}))), 0);
  const nlohmann::json valid = metrics(run_dir("run")).back();
  ASSERT_EQ(valid.at("kind"), "valid");
  const auto evaluate = [&](int ranks, const std::vector<std::string>& more) {
    std::vector<std::string> command{"eval", "--checkpoint", checkpoints("run"), "--data", path("valid.bin")};
    command.insert(command.end(), more.begin(), more.end());
    return run(weft_on(ranks, command));
  };
  // The last digits may differ where sums have another order.
  const auto expect_loss = [&](const Ended& ended, double tolerance) {
    EXPECT_STATUS(ended, 0);
    double loss = 0, perplexity = 0, bits = 0;
    long tokens = 0;
    const auto at = ended.out.find("\nloss ");
    ASSERT_NE(at, std::string::npos) << ended.out;
    ASSERT_EQ(std::sscanf(ended.out.c_str() + at, "\nloss %lf, perplexity %lf, %lf bits a byte; %ld tokens",
                          &loss, &perplexity, &bits, &tokens),
              4)
        << ended.out;
    EXPECT_TRUE(ended.out.starts_with(checkpoints("run") + "/step-00000005: step 5\n")) << ended.out;
    EXPECT_NEAR(loss, valid.at("loss").get<double>(), tolerance);
    EXPECT_NEAR(perplexity, std::exp(loss), 1e-4 * perplexity);
    EXPECT_NEAR(bits, valid.at("bits_per_byte").get<double>(), tolerance);
    EXPECT_EQ(tokens, valid.at("tokens").get<long>());
  };
  expect_loss(evaluate(2, {"--sequences", "12"}), 1e-6);
  expect_loss(evaluate(1, {"--sequences", "12", "--batch", "5"}), 1e-5);
  expect_loss(evaluate(2, {"--sequences", "12", "--tensor", "2"}), 1e-5);
  expect_loss(evaluate(2, {"--sequences", "12", "--context", "2"}), 1e-5);
  const Ended all = evaluate(1, {});
  EXPECT_STATUS(all, 0);
  EXPECT_EQ(all.out.find(std::to_string(valid.at("tokens").get<long>()) + " tokens"), std::string::npos)
      << "more than 12 sequences: " << all.out;
  // The last of several options counts all files of both.
  const Ended none = evaluate(2, {"--data", path("none.bin")});
  EXPECT_STATUS(none, 2);
  EXPECT_EQ(none.lines("weft: error:").size(), 1U) << none.err;
  EXPECT_EQ(none.lines("weft: error: --data: data.valid: ").size(), 1U) << none.err;
  const Ended uneven = evaluate(3, {"--tensor", "3"});
  EXPECT_STATUS(uneven, 2);
  EXPECT_EQ(uneven.lines("weft: error:").size(), 1U) << uneven.err;
  EXPECT_EQ(uneven.lines("weft: error: --tensor, --context: parallel.mesh: ").size(), 1U) << uneven.err;
  // A limit just below what the refusal names is refused once more, and one just above it is enough.
  double needs = 1;
  for (const double less : {0.0, 8.0}) {
    const Ended refused = evaluate(2, {"--memory-limit", std::to_string(needs - less) + "MiB"});
    EXPECT_STATUS(refused, 2);
    EXPECT_EQ(refused.lines("weft: error:").size(), 1U) << refused.err;
    const std::string start = "weft: error: --memory-limit: run.memory_limit: the run needs ";
    const std::vector<std::string> lines = refused.lines(start);
    ASSERT_EQ(lines.size(), 1U) << refused.err;
    needs = std::stod(lines[0].substr(start.size()));
    for (const char* text : {" MiB on a rank (state ", "), the limit is ",
                             " MiB; use more ranks that share the model, or a smaller --batch, or raise "
                             "--memory-limit"})
      EXPECT_NE(lines[0].find(text), std::string::npos) << lines[0];
  }
  EXPECT_STATUS(evaluate(2, {"--memory-limit", std::to_string(needs + 8) + "MiB"}), 0);
}

/// All text becomes one document then, which a slip of the separator's name would do in silence.
TEST_F(Workflow, ASeparatorThatStandsNowhereIsTold) {
  const std::vector<std::pair<std::string, std::string>> separators{
      {"blank-line", ""},
      {"file", ""},
      {"blankline",
       "the separator 'blankline' stands in none of the texts, so each file is one document; did "
       "you mean 'blank-line'?"},
      {"<|end|>", "; give another one, or --separator file if that is meant"}};
  for (const auto& [separator, warning] : separators) {
    SCOPED_TRACE(separator);
    const Ended ended = run(
        weft({"data", "tokenize", path("text.txt"), "--train", path("again.bin"), "--separator", separator}));
    EXPECT_STATUS(ended, 0);
    const auto warnings = ended.lines("weft: warning:");
    ASSERT_EQ(warnings.size(), warning.empty() ? 0U : 1U) << ended.err;
    for (const std::string& line : warnings) {
      EXPECT_TRUE(line.starts_with("weft: warning: the separator ")) << "a rank has no part in it: " << line;
      EXPECT_NE(line.find(warning), std::string::npos) << line;
    }
  }
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

/// A path that is mistyped, or is a run's where a checkpoint is meant, is the user's mistake for each
/// command.
TEST_F(Workflow, WhatIsNamedAsACheckpointIsLookedAt) {
  EXPECT_STATUS(run(weft(train("run", {"run.steps=2"}))), 0);
  const std::string none = path("none"), out = path("out");
  const auto refused = [](const std::vector<std::string>& command, const std::string& text) {
    SCOPED_TRACE(command[0] + " " + command[1]);
    const Ended ended = run(weft(command));
    EXPECT_STATUS(ended, 2);
    const auto errors = ended.lines("weft: error:");
    ASSERT_EQ(errors.size(), 1U) << ended.err;
    EXPECT_NE(errors[0].find(text), std::string::npos) << errors[0];
  };
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"checkpoint", "verify", none},
                                             {"checkpoint", "export", none, out},
                                             {"checkpoint", "import", none},
                                             {"sample", "--checkpoint", none, "--tokenizer", "byte"},
                                             {"hang", none}})
    refused(command, "there is no " + none + "; ");
  for (const std::string& dir : {run_dir("run"), checkpoints("run")})
    for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
             {"checkpoint", "verify", dir}, {"checkpoint", "export", dir, out}})
      refused(command, dir + " is not a checkpoint; did you mean " + checkpoints("run") + "/latest?");
  refused({"sample", "--checkpoint", run_dir("run"), "--tokenizer", "byte"},
          run_dir("run") + " is not a checkpoint; did you mean " + checkpoints("run") + "/latest?");
  EXPECT_FALSE(std::filesystem::exists(out));
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

/// Threads that wait for each other on too few processors make a run slow, and nothing else tells why.
TEST_F(Workflow, MoreThreadsThanProcessorsAreTold) {
  const std::string cpus = cpus_at_start();
  const auto processors = std::count(cpus.begin(), cpus.end(), '1');
  for (const auto threads : {processors, processors + 1}) {
    const std::string name = "on" + std::to_string(threads);
    std::filesystem::create_directory(run_dir(name));
    write_file(run_dir(name) + "/STOP", "");  // it ends before its first step
    std::vector<std::string> command{"env", "OMP_NUM_THREADS=" + std::to_string(threads)};
    const auto training = weft(train(name));
    command.insert(command.end(), training.begin(), training.end());
    const Ended ended = run(command);
    EXPECT_STATUS(ended, 5);
    const auto warnings = ended.lines("weft: warning: rank 0: 1 ranks of ");
    EXPECT_EQ(warnings.size(), threads > processors ? 1U : 0U) << ended.err;
    for (const std::string& warning : warnings)
      EXPECT_NE(warning.find("; set OMP_NUM_THREADS=" + std::to_string(processors) + ", or start by "),
                std::string::npos)
          << warning;
  }
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
