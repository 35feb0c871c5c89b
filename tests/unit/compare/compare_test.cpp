// Tests where two series of hashes part, and `weft compare` on the files of two runs.
#include "compare/compare_hashes.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/check.hpp"
#include "compare/compare_runs.hpp"
#include "support/small_deck.hpp"
#include "support/temporary_directory.hpp"

namespace weft::compare {
namespace {

using test::TemporaryDirectory;

/// A step of three values in two modules.
StepHashes step_of(std::int64_t step, const std::string& h = "01", const std::string& out = "02",
                   const std::string& grad = "03") {
  return {step,
          {{"forward", "layers.0.attn", "h", "rms_norm", h},
           {"forward", "layers.0.ffn", "out", "add", out},
           {"backward", "layers.0.ffn", "out.grad", "rms_norm_grad", grad}}};
}

TEST(Compare, EqualRuns) {
  const std::vector<StepHashes> run{step_of(2), step_of(4)};
  const Comparison c = compare_hashes(run, run);
  EXPECT_EQ(c.steps, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(c.equal_steps, 2U);
  EXPECT_FALSE(c.parting);
  EXPECT_EQ(c.only_in_a + c.only_in_b, 0U);
}

TEST(Compare, FindsTheFirstStepAndItsFirstValueInProgramOrder) {
  const std::vector<StepHashes> a{step_of(1), step_of(2), step_of(3), step_of(4)};
  const std::vector<StepHashes> b{step_of(1), step_of(2), step_of(3, "01", "ff"),
                                  step_of(4, "ff", "ff", "ff")};
  const Comparison c = compare_hashes(a, b);
  EXPECT_EQ(c.steps.size(), 4U);
  EXPECT_EQ(c.equal_steps, 2U);
  ASSERT_TRUE(c.parting);
  EXPECT_EQ(c.parting->step, 3);
  EXPECT_EQ(c.parting->in_a, a[2].values[1]);
  EXPECT_EQ(c.parting->in_b.hash, "ff");
  EXPECT_EQ(c.parting->after, 1U);
  EXPECT_EQ(c.parting->differing_after, 0U);
}

TEST(Compare, CountsWhatDiffersAfterTheFirst) {
  const Comparison c =
      compare_hashes(std::vector{step_of(1, "01", "02", "03")}, std::vector{step_of(1, "ff", "02", "fe")});
  ASSERT_TRUE(c.parting);
  EXPECT_EQ(c.parting->after, 2U);
  EXPECT_EQ(c.parting->differing_after, 1U);
}

TEST(Compare, TheOrderIsTheFirstRuns) {
  StepHashes b = step_of(1, "ff", "ff", "ff");
  std::swap(b.values[0], b.values[2]);
  EXPECT_EQ(compare_hashes(std::vector{step_of(1)}, std::vector{b}).parting->in_a.value, "h");
  EXPECT_EQ(compare_hashes(std::vector{b}, std::vector{step_of(1)}).parting->in_a.value, "out.grad");
}

TEST(Compare, OtherSchedulesHaveOtherValues) {
  StepHashes b = step_of(1);
  b.values[2].op = "another";  // what made it does not matter
  b.values.erase(b.values.begin());
  b.values.push_back({"backward", "layers.0.attn", "h", "rms_norm", "ee"});  // the name in another phase
  b.values.push_back({"update", "embed", "x", "adamw", "ee"});
  const Comparison c = compare_hashes(std::vector{step_of(1)}, std::vector{b});
  EXPECT_FALSE(c.parting);
  EXPECT_EQ(c.equal_steps, 1U);
  EXPECT_EQ(c.only_in_a, 1U);
  EXPECT_EQ(c.only_in_b, 2U);
}

TEST(Compare, OnlyStepsOfBothRunsCount) {
  const Comparison c = compare_hashes(std::vector{step_of(2), step_of(4), step_of(6, "ff")},
                                      std::vector{step_of(3), step_of(4), step_of(5, "ff")});
  EXPECT_EQ(c.steps, (std::vector<std::int64_t>{4}));
  EXPECT_FALSE(c.parting);
  EXPECT_TRUE(compare_hashes(std::vector{step_of(1)}, std::vector{step_of(2)}).steps.empty());
}

/// Two run directories.
class CompareRuns : public testing::Test {
 protected:
  CompareRuns() {
    for (const char* run : {"a", "b"}) {
      std::filesystem::create_directory(directory_ / run);
      write(run, "/deck.toml", print_deck(test::small_deck({"run.dir=" + std::string(run)})));
    }
  }
  void write(const std::string& run, const std::string& file, const std::string& text) const {
    std::ofstream((directory_ / run) + file, std::ios::binary) << text;
  }
  void write_hashes(const std::string& run, const std::vector<StepHashes>& steps,
                    const std::string& more = "") const {
    std::string text;
    for (const StepHashes& step : steps) text += to_json_line(step);
    write(run, "/hashes.jsonl", text + more);
  }
  RunComparison compare() const { return compare_runs(directory_ / "a", directory_ / "b"); }
  void expect_refused(const std::string& text) const {
    try {
      ADD_FAILURE() << compare().text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_input);
      const std::string what = e.what();
      EXPECT_NE(what.find(text), std::string::npos) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  }

  TemporaryDirectory directory_;
};

#define EXPECT_TELLS(comparison, words) \
  EXPECT_NE((comparison).text.find(words), std::string::npos) << (comparison).text

std::string metrics_line(int step, const std::string& loss, const std::string& more = "") {
  return R"({"kind": "train", "step": )" + std::to_string(step) + R"(, "loss": )" + loss + more + "}\n";
}

TEST_F(CompareRuns, Equal) {
  write_hashes("a", {step_of(1), step_of(2)});
  write_hashes("b", {step_of(1), step_of(2)});
  const RunComparison c = compare();
  EXPECT_TRUE(c.equal);
  EXPECT_EQ(c.text, "decks: equal\nhashes: 2 steps in both (1 to 2), all equal\n");
}

TEST_F(CompareRuns, PartAtAModule) {
  write_hashes("a", {step_of(1), step_of(2)});
  write_hashes("b", {step_of(1), step_of(2, "01", "ff")});
  write("b", "/deck.toml", print_deck(test::small_deck({"model.norm_eps=1e-4", "run.name=other"})));
  const RunComparison c = compare();
  EXPECT_FALSE(c.equal);
  EXPECT_EQ(c.text,
            "decks differ:\n"
            "  model.norm_eps: 1e-05 and 0.0001\n"
            "hashes: 2 steps in both (1 to 2), 1 equal\n"
            "  the runs part at step 2, in forward of layers.0.ffn: out (add) has 02 and ff\n"
            "  of the 1 values after it, 0 differ\n");
}

/// What ranks make in parts has the axis behind its name. It is not compared with other parts of it.
TEST_F(CompareRuns, PartsOfOtherAxesAreNotCompared) {
  StepHashes cut = step_of(1);
  for (const std::size_t i : {0U, 2U}) cut.values[i] = step_of(1, "ff", "ff", "ff").values[i];
  cut.values[0].value += " tensor=2";
  cut.values[2].value += " context=2 tensor=2";
  write_hashes("a", {step_of(1)});
  write_hashes("b", {cut});
  const RunComparison c = compare();
  EXPECT_TRUE(c.equal);
  EXPECT_EQ(c.text,
            "decks: equal\n"
            "hashes: 1 steps in both (1 to 1), all equal\n"
            "  not compared: 2 values of the first run only, 2 of the second only\n"
            "  an axis tensor or context has another size: what it cuts is not compared, and sums differ in "
            "their last digits\n");
  write_hashes("a", {cut});
  EXPECT_EQ(compare().text, "decks: equal\nhashes: 1 steps in both (1 to 1), all equal\n");
}

TEST_F(CompareRuns, TornLastLineIsLeftOut) {
  const std::string torn = to_json_line(step_of(2, "ff"));
  write_hashes("a", {step_of(1), step_of(2)});
  write_hashes("b", {step_of(1)}, torn.substr(0, torn.size() / 2));
  EXPECT_TELLS(compare(), "hashes: 1 steps in both (1 to 1), all equal");
}

TEST_F(CompareRuns, MetricsSeeWhatNoHashedStepSaw) {
  for (const char* run : {"a", "b"}) write_hashes(run, {step_of(1)});
  write("a", "/metrics.jsonl", metrics_line(1, "5.5") + metrics_line(2, "5.25"));
  write("b", "/metrics.jsonl", metrics_line(1, "5.5") + metrics_line(2, "5.26"));
  const RunComparison c = compare();
  EXPECT_FALSE(c.equal);
  EXPECT_TELLS(c, "hashes: 1 steps in both (1 to 1), all equal");
  EXPECT_TELLS(c, "they part at step 2: loss is 5.25 and 5.26");
}

TEST_F(CompareRuns, MetricsServeWithoutHashes) {
  write_hashes("a", {step_of(1)});
  const std::string valid = R"({"kind": "valid", "step": 1, "loss": 9})"
                            "\n";
  write("a", "/metrics.jsonl", metrics_line(1, "5.5", R"(, "state_hash": "0a")"));
  write("b", "/metrics.jsonl", metrics_line(1, "5.5", R"(, "state_hash": "0b")") + valid);
  const RunComparison c = compare();
  EXPECT_FALSE(c.equal);
  EXPECT_TELLS(c, "they part at step 1: state_hash is \"0a\" and \"0b\"");
  EXPECT_TELLS(c, "set debug.hash_every");
}

/// A line is parsed without recursion, but a value that nests deeply would be printed with recursion.
TEST_F(CompareRuns, AMetricIsANumberOrText) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  write("a", "/metrics.jsonl", metrics_line(1, "5.5"));
  for (const std::string& loss : std::vector<std::string>{deep, "[]", "{}"}) {
    write("b", "/metrics.jsonl", metrics_line(1, "5.5") + metrics_line(2, loss));
    expect_refused("/b/metrics.jsonl:2: ");
  }
  const std::string of_no_kind = R"({"kind": [], "step": 1, "loss": [1]})";
  write("b", "/metrics.jsonl", of_no_kind + "\n" + metrics_line(1, "5.5"));
  EXPECT_TRUE(compare().equal);
}

TEST_F(CompareRuns, WhatCannotBeReadIsOneLine) {
  expect_refused("cannot open " + (directory_ / "a") + "/metrics.jsonl (No such file");
  write_hashes("a", {step_of(1)});
  write_hashes("b", {step_of(2)});
  expect_refused("/metrics.jsonl (No such file");
  for (const char* run : {"a", "b"}) write(run, "/metrics.jsonl", "");
  expect_refused("have no step in common");
  for (const char* garbled : {"nonsense\n", "{\"values\": []}\n", "[1]\n", "\n"}) {
    write_hashes("b", {step_of(1)}, garbled + to_json_line(step_of(2)));
    expect_refused("/b/hashes.jsonl:2: not a JSON object with a step");
  }
  for (const char* garbled :
       {R"({"step": 2})", R"({"step": 2, "values": 3})", R"({"step": 2, "values": [["a", "b"]]})",
        R"({"step": 2, "values": [["a", "b", "c", "d", 5]]})"}) {
    write_hashes("b", {step_of(1)}, garbled + std::string("\n"));
    expect_refused("/b/hashes.jsonl:2: not a line of hashes");
  }
  std::filesystem::remove(directory_ / "b/deck.toml");
  expect_refused("/b/deck.toml: cannot read the deck");
  std::filesystem::remove_all(directory_ / "b");
  expect_refused("/b is not a directory");
}

TEST(HashWriter, GoesOnAfterAResumeAndSetsAnOldRunAside) {
  const TemporaryDirectory directory;
  const std::string path = directory / "hashes.jsonl";
  const auto steps = [](const std::string& file) {
    std::vector<std::int64_t> list;
    for (const StepHashes& step : read_hashes(file)) list.push_back(step.step);
    return list;
  };
  {
    HashWriter writer(path, std::nullopt);
    for (const std::int64_t step : {1, 2, 3}) writer.write(step_of(step));
  }
  {
    HashWriter resumed(path, 2);
    EXPECT_EQ(steps(path), (std::vector<std::int64_t>{1, 2}));
    resumed.write(step_of(3, "ff"));
  }
  EXPECT_EQ(read_hashes(path).back().values, step_of(3, "ff").values);
  HashWriter afresh(path, std::nullopt);
  EXPECT_EQ(steps(path), (std::vector<std::int64_t>{}));
  EXPECT_EQ(steps(path + ".old"), (std::vector<std::int64_t>{1, 2, 3}));
}

}  // namespace
}  // namespace weft::compare
