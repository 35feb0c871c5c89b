// Tests weights that go out to Hugging Face's format, come back, and start new runs, by the commands of a
// user.
#include <fmt/format.h>

#include <filesystem>
#include <tuple>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

class Interchange : public Workspace {
 protected:
  void SetUp() override {
    Workspace::SetUp();
    succeeds(weft_on(2, train("first", {"run.steps=5"})));
    succeeds(weft({"checkpoint", "export", checkpoint(), hf(), "--dtype", "f32", "--shard-size", "100000"}));
  }
  static void succeeds(const std::vector<std::string>& command) {
    const Ended ended = run(command);
    EXPECT_STATUS(ended, 0);
  }
  std::string checkpoint() const { return checkpoints("first") + "/latest"; }
  std::string hf() const { return path("hf"); }
  std::string log(const std::string& name) const { return read_file(run_dir(name) + "/log.txt"); }
};

TEST_F(Interchange, ImportedWeightsWriteTheSameText) {
  const Ended imported = run(weft({"checkpoint", "import", hf(), path("imported")}));
  EXPECT_STATUS(imported, 0);
  EXPECT_NE(imported.out.find("[model]\ndim = 64\n"), std::string::npos) << imported.out;
  EXPECT_TRUE(imported.out.ends_with("\ninit = \"" + path("imported") + "/step-00000000\"\n"))
      << imported.out;
  succeeds(weft({"checkpoint", "verify", path("imported") + "/step-00000000"}));
  const auto sample = [&](const std::string& from) {
    const Ended ended = run(
        weft({"sample", "--checkpoint", from, "--tokenizer", "byte", "--prompt", "the ", "--tokens", "20"}));
    EXPECT_STATUS(ended, 0);
    EXPECT_GT(ended.out.size(), 4U) << ended.out;
    return ended.out;
  };
  EXPECT_EQ(sample(path("imported")), sample(checkpoints("first")));
  const Ended shown = run(weft({"checkpoint", "import", hf()}));
  EXPECT_STATUS(shown, 0);
  EXPECT_EQ(shown.out.substr(0, 8), "[model]\n");
}

/// The deck of imported weights has short sequences, for `weft sample`, and an export goes by the deck.
TEST_F(Interchange, AnImportSaysWhichLongestContextItDoesNotKeep) {
  const Ended same = run(weft({"checkpoint", "import", hf(), path("same")}));
  EXPECT_STATUS(same, 0);
  EXPECT_EQ(same.out.find("max_position_embeddings"), std::string::npos) << same.out;
  std::string config = read_file(hf() + "/config.json");
  const std::string key = "\"max_position_embeddings\": ";
  const std::size_t at = config.find(key) + key.size();
  config.replace(at, config.find(',', at) - at, "131072");
  write_file(hf() + "/config.json", config);
  const Ended longer = run(weft({"checkpoint", "import", hf(), path("longer")}));
  EXPECT_STATUS(longer, 0);
  EXPECT_NE(
      longer.out.find("# The checkpoint does not keep max_position_embeddings = 131072: an export writes "
                      "2048, or what --max-position says.\n"),
      std::string::npos)
      << longer.out;
}

TEST_F(Interchange, RunsStartFromEitherAndThenResumeTheirOwn) {
  succeeds(weft(train("ours", {"run.steps=5", "model.init=" + checkpoint()})));
  succeeds(weft_on(2, train("theirs", {"run.steps=5", "model.init=" + hf()})));
  EXPECT_EQ(curve(run_dir("ours")), curve(run_dir("theirs")));
  EXPECT_NE(curve(run_dir("ours")), curve(run_dir("first")));
  EXPECT_NE(log("theirs").find("starts from the weights of " + hf()), std::string::npos) << log("theirs");
  const Ended resumed = run(weft(train("theirs", {"run.steps=8", "model.init=" + hf()})));
  EXPECT_STATUS(resumed, 0);
  EXPECT_NE(log("theirs").find("continues from step 5"), std::string::npos);
  EXPECT_EQ(last_step(run_dir("theirs")), 8);
}

TEST_F(Interchange, RefusesADeckOfAnotherModel) {
  const auto refused = [&](std::vector<std::string> sets, const std::string& message) {
    sets.push_back("run.steps=5");
    const Ended ended = run(weft(train("other", sets)));
    EXPECT_STATUS(ended, 2);
    EXPECT_EQ(ended.lines("weft: error:").size(), 1U) << ended.err;
    EXPECT_NE(ended.err.find(message), std::string::npos) << ended.err;
  };
  const std::string init = "model.init=" + hf();
  refused({init, "model.layers=1"}, "--set: model.layers is 1, and 2 in " + hf());
  for (const auto& [key, value, theirs] : {std::tuple("dim", "128", "64"),
                                           {"layers", "1", "2"},
                                           {"heads", "8", "4"},
                                           {"kv_heads", "4", "2"},
                                           {"ffn", "180", "176"},
                                           {"vocab", "320", "300"},
                                           {"tie_embeddings", "true", "false"}})
    refused({"model.init=" + checkpoint(), fmt::format("model.{}={}", key, value)},
            fmt::format("model.{} is {}, and {} in", key, value, theirs));
  // With twice the heads and twice the key and value heads, every weight has the shape that it has there.
  refused({"model.init=" + checkpoint(), "model.heads=8", "model.kv_heads=4"}, "model.heads is 8, and 4 in");
  refused({"model.init=" + path("")}, path("") + " holds no weights");
  refused({"model.init=" + path("nowhere")}, "--set: model.init: there is no " + path("nowhere"));
  refused({"model.init=" + checkpoints("first")},
          checkpoints("first") + " is not a checkpoint; did you mean " + checkpoint() + "?");
  std::string config = read_file(hf() + "/config.json");
  const std::string theta = "\"rope_theta\": 500000.0";
  config.replace(config.find(theta), theta.size(), "\"rope_theta\": 10000.0");
  write_file(hf() + "/config.json", config);
  refused({init}, "model.rope_theta is 500000.0 by default, and 10000.0 in " + hf());
  succeeds(weft(train("set", {"run.steps=5", init, "model.rope_theta=500000"})));
  EXPECT_NE(log("set").find(", model.rope_theta is 500000.0 instead of 10000.0"), std::string::npos)
      << log("set");
}

/// What is printed is a deck's tables, also where one follows [model].
TEST_F(Interchange, AnImportPrintsTheDeckThatStartsFromIt) {
  std::string config = read_file(hf() + "/config.json");
  const std::string none = "\"rope_scaling\": null";
  ASSERT_NE(config.find(none), std::string::npos) << config;
  config.replace(config.find(none), none.size(),
                 "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
                 "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}");
  write_file(hf() + "/config.json", config);
  const Ended imported = run(weft({"checkpoint", "import", hf(), path("imported")}));
  EXPECT_STATUS(imported, 0);
  EXPECT_NE(imported.out.find("/step-00000000\"\n[model.rope_scaling]\n"), std::string::npos) << imported.out;
  write_file(path("start.toml"),
             imported.out +
                 "[run]\nname = \"start\"\nsteps = 2\n[optimizer]\nlr = 1e-3\nwarmup = 1\n[data]\n"
                 "synthetic = true\nseq = 24\nglobal_batch = 2\n[log]\nprogress = false\n");
  const Ended started = run(weft({"train", path("start.toml"), "--set", "run.dir=" + run_dir("start")}));
  EXPECT_STATUS(started, 0);
  EXPECT_NE(log("start").find("starts from the weights of " + path("imported") + "/step-00000000"),
            std::string::npos)
      << log("start");
}

/// A run looks for its checkpoints in a directory below its own.
TEST_F(Interchange, WhatLiesInARunsDirectoryItselfIsNotPassedOverInSilence) {
  for (const std::string& dir : {run_dir("first"), run_dir("first") + "/", checkpoints("first")}) {
    const Ended refused = run(weft({"checkpoint", "import", hf(), dir}));
    EXPECT_STATUS(refused, 2);
    EXPECT_EQ(refused.lines("weft: error: " + dir + " is a run's; name another directory").size(), 1U)
        << refused.err;
  }
  succeeds(weft({"checkpoint", "import", hf(), run_dir("imported")}));
  const Ended random = run(weft(train("imported", {"run.steps=2", "checkpoint.final=false"})));
  EXPECT_STATUS(random, 0);
  EXPECT_EQ(
      random.lines("weft: warning: rank 0: " + run_dir("imported") + " itself holds a checkpoint").size(), 1U)
      << random.err;
  const Ended named =
      run(weft(train("imported", {"run.steps=2", "model.init=" + run_dir("imported") + "/step-00000000"})));
  EXPECT_STATUS(named, 0);
  EXPECT_EQ(named.err.find("itself holds"), std::string::npos) << named.err;
}

/// Weights alone are no state to continue from: the message says what to do with them.
TEST_F(Interchange, ImportedWeightsAreNotResumedFrom) {
  succeeds(weft({"checkpoint", "import", hf(), path("imported")}));
  const Ended ended =
      run(weft(train("resumed", {"run.steps=5", "run.seed=1234",
                                 "checkpoint.resume=" + path("imported") + "/step-00000000"})));
  EXPECT_STATUS(ended, 4);
  EXPECT_NE(ended.err.find("model.init"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace weft::test
