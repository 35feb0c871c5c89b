// Tests `weft compare` on real runs.
#include <filesystem>
#include <sstream>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class CompareCommand : public Workspace {
 protected:
  void trained(int ranks, const std::string& run, std::vector<std::string> sets) const {
    sets.insert(sets.begin(), {"run.steps=3", "data.valid_every=0", "checkpoint.final=false"});
    EXPECT_STATUS(weft::test::run(weft_on(ranks, train(run, sets))), 0);
  }
  Ended compare(const std::string& a, const std::string& b) const {
    return run(weft({"compare", run_dir(a), run_dir(b)}));
  }
  /// The steps of a run's hashes.jsonl.
  std::vector<std::int64_t> hashed(const std::string& run) const {
    std::vector<std::int64_t> steps;
    std::istringstream in(read_file(run_dir(run) + "/hashes.jsonl"));
    for (std::string line; std::getline(in, line);)
      steps.push_back(nlohmann::json::parse(line).at("step").get<std::int64_t>());
    return steps;
  }
};

#define EXPECT_TELLS(ended, words) EXPECT_NE((ended).out.find(words), std::string::npos) << (ended).out

TEST_F(CompareCommand, RunsOnOtherRanksInAnotherModeAreEqual) {
  trained(2, "fsdp", {"parallel.mode=fsdp"});
  trained(1, "ddp", {"parallel.mode=ddp"});
  const Ended ended = compare("fsdp", "ddp");
  EXPECT_STATUS(ended, 0);
  EXPECT_EQ(ended.out,
            "decks differ:\n"
            "  parallel.mode: \"fsdp\" and \"ddp\"\n"
            "hashes: 3 steps in both (1 to 3), all equal\n"
            "metrics: 3 steps in both (1 to 3), all equal\n");
}

TEST_F(CompareCommand, RunsOnMeshesWithEqualTensorAxesAreEqual) {
  trained(2, "tensor", {"parallel.mesh={ tensor = 2 }"});
  trained(4, "stages", {"parallel.mesh={ pipe = 2, tensor = 2 }"});
  const Ended ended = compare("tensor", "stages");
  EXPECT_STATUS(ended, 0);
  EXPECT_TELLS(ended, "  parallel.mesh: ");
  EXPECT_TELLS(ended, "hashes: 3 steps in both (1 to 3), all equal\n");
  EXPECT_TELLS(ended, "metrics: 3 steps in both (1 to 3), all equal\n");

  trained(4, "eps", {"parallel.mesh={ pipe = 2, tensor = 2 }", "model.norm_eps=1e-4"});
  const Ended eps = compare("tensor", "eps");
  EXPECT_STATUS(eps, 1);
  EXPECT_TELLS(eps, "part at step 1, in forward of layers.0.attn: layers.0.attn.h tensor=2 (rms_norm) has ");
}

/// The axis changes the order of sums, and data and settings are still compared.
TEST_F(CompareCommand, AnotherTensorAxisIsNoOtherData) {
  trained(1, "alone", {});
  trained(2, "tensor", {"parallel.mesh={ tensor = 2 }"});
  trained(2, "seed", {"parallel.mesh={ tensor = 2 }", "run.seed=8"});
  const Ended ended = compare("alone", "tensor");
  EXPECT_EQ(ended.out.find("(state) has "), std::string::npos) << ended.out;
  EXPECT_TELLS(ended, "  an axis tensor or context has another size: ");
  EXPECT_TELLS(compare("alone", "seed"), "part at step 1, in forward of input: tokens (state) has ");
}

TEST_F(CompareCommand, NamesTheFirstModuleThatDiffers) {
  trained(2, "reference", {});
  trained(3, "eps", {"model.norm_eps=1e-4"});
  const Ended eps = compare("reference", "eps");
  EXPECT_STATUS(eps, 1);
  EXPECT_TELLS(eps, "  model.norm_eps: 1e-05 and 0.0001\n");
  EXPECT_TELLS(eps, "hashes: 3 steps in both (1 to 3), 0 equal\n");
  EXPECT_TELLS(eps, "part at step 1, in forward of layers.0.attn: layers.0.attn.h (rms_norm) has ");

  trained(2, "data", {"data.train=" + path("valid.bin")});
  EXPECT_TELLS(compare("reference", "data"), "part at step 1, in forward of input: tokens (state) has ");
  trained(2, "seed", {"run.seed=8", "data.train=" + path("train.bin")});
  EXPECT_TELLS(compare("reference", "seed"), "part at step 1, in forward of input: tokens (state) has ");

  trained(2, "lr", {"optimizer.lr=2e-2"});
  EXPECT_TELLS(compare("reference", "lr"), "part at step 1, in update of input: step (state) has ");
  trained(2, "adam", {"optimizer.eps=1e-6"});
  EXPECT_TELLS(compare("reference", "adam"), "in update of embed: master.embed.table.new (adamw) has ");
}

TEST_F(CompareCommand, AResumedRunIsEqualAndHasNoStepTwice) {
  trained(2, "whole", {"run.steps=6"});
  trained(2, "parts", {"run.steps=4", "checkpoint.every=3"});
  EXPECT_EQ(hashed("parts"), steps_to(4));
  trained(1, "parts", {"run.steps=6"});
  EXPECT_EQ(hashed("parts"), steps_to(6));
  const Ended ended = compare("whole", "parts");
  EXPECT_STATUS(ended, 0);
  EXPECT_TELLS(ended, "hashes: 6 steps in both (1 to 6), all equal\n");
}

TEST_F(CompareCommand, ARunWithoutHashesKeepsNoneOfAnEarlierRun) {
  trained(1, "run", {});
  trained(1, "run", {"debug.hash_every=0"});
  EXPECT_FALSE(fs::exists(run_dir("run") + "/hashes.jsonl"));
  EXPECT_TRUE(fs::exists(run_dir("run") + "/hashes.jsonl.old"));
  trained(1, "other", {});
  const Ended ended = compare("run", "other");
  EXPECT_STATUS(ended, 0);
  EXPECT_TELLS(ended, "metrics: 3 steps in both (1 to 3), all equal\nno hashed step in both");
}

TEST_F(CompareCommand, WhatIsNotARunIsOneLine) {
  trained(1, "run", {});
  const Ended none = compare("run", "none");
  EXPECT_STATUS(none, 2);
  EXPECT_EQ(none.lines("weft: error:").size(), 1U);
  EXPECT_NE(none.err.find("/none is not a directory"), std::string::npos) << none.err;
  write_file(run_dir("run") + "/hashes.jsonl", "nonsense\n");
  const Ended garbled = compare("run", "run");
  EXPECT_STATUS(garbled, 2);
  EXPECT_NE(garbled.err.find("/run/hashes.jsonl:1: not a JSON object"), std::string::npos) << garbled.err;
  EXPECT_STATUS(run(weft({"compare", run_dir("run")})), 2);
}

}  // namespace
}  // namespace weft::test
