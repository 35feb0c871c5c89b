// Tests what becomes of a step, a validation and a line that a run reports: where they are written, and where
// they are not.
#include "report/report.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/small_deck.hpp"
#include "support/temporary_directory.hpp"
#include "unit/report/event_file.hpp"

namespace weft::report {
namespace {

StepMetrics after_step(std::int64_t step, double loss) {
  StepMetrics m;
  m.step = step;
  m.loss = loss;
  m.grad_norm = 0.5;
  m.lr = 1e-3;
  m.tokens = 100;
  m.tokens_per_s = 50;
  m.step_s = 2;
  return m;
}

/// A run of two ranks whose losses are equal for 51 steps. Step 52 has a spike and a validation. Then the run
/// goes back to step 40 and does ten steps once more, with another loss.
class ReportTest : public testing::Test {
 protected:
  /// Reports the run, and returns what stderr has of it.
  std::string reported(std::vector<std::string> sets) {
    sets.insert(sets.end(), {"run.steps=100", "log.every=10", "debug.hash_every=20"});
    Deck deck = test::small_deck(sets);
    deck.run.dir = dir_.path();
    testing::internal::CaptureStderr();
    {
      Report report(deck, 0, {{"n1"}, {"n2"}}, {}, {2, 0, {}, {}});
      const auto train = [&](std::int64_t step, double loss) {
        report.train(after_step(step, loss));
        if (step % 10 == 0) report.ranks(step, {10, {loss, loss}, {{}, {}}});
        if (step % 20 == 0) report.hashes({step, {{"forward", "head", "loss", "mean", "0"}}});
      };
      report.note("a note");
      for (std::int64_t step = 1; step <= 51; ++step) train(step, 2);
      train(52, 9);
      StepMetrics valid = after_step(52, 3);
      valid.kind = MetricsKind::valid;
      valid.bits_per_byte = 1.5;
      report.validation(valid);
      before_ = lines_of("metrics.jsonl");
      report.go_back(40);
      for (std::int64_t step = 41; step <= 50; ++step) train(step, 2.5);
      report.finish();
    }
    return testing::internal::GetCapturedStderr();
  }
  std::vector<nlohmann::json> lines_of(const std::string& name) const {
    std::vector<nlohmann::json> lines;
    std::istringstream in(test::read_file(dir_ / name));
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  std::vector<std::int64_t> steps_in(const std::string& name) const {
    std::vector<std::int64_t> steps;
    for (const nlohmann::json& line : lines_of(name)) steps.push_back(line.at("step"));
    return steps;
  }
  /// The lines of log.txt without their times, each with its level: "info a note".
  std::vector<std::string> log() const {
    std::vector<std::string> lines;
    std::istringstream in(test::read_file(dir_ / "log.txt"));
    for (std::string line; std::getline(in, line);) lines.push_back(line.substr(line.find(' ') + 1));
    return lines;
  }

  test::TemporaryDirectory dir_;
  std::vector<nlohmann::json> before_;  ///< metrics.jsonl just before the run goes back
};

constexpr const char* spike_warning =
    "weft: warning: rank 0: step 52: the loss 9.000000 is a spike: the median of the 50 before it is "
    "2.000000, their deviation 0.01";

TEST_F(ReportTest, FilesHaveEveryStepAndDropWhatTheRunGoesBackOver) {
  reported({"log.tensorboard=true"});
  ASSERT_EQ(before_.size(), 53U);
  for (std::size_t i = 0; i < before_.size(); ++i) {
    EXPECT_EQ(before_[i].at("step"), std::min<std::size_t>(i + 1, 52));
    EXPECT_EQ(before_[i].at("kind"), i == 52 ? "valid" : "train");
    EXPECT_EQ(before_[i].contains("spike"), i == 51) << before_[i];
  }
  const auto lines = lines_of("metrics.jsonl");
  ASSERT_EQ(lines.size(), 50U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("step"), i + 1);
    EXPECT_EQ(lines[i].at("loss"), i < 40 ? 2 : 2.5);
    EXPECT_FALSE(lines[i].contains("spike"));
  }
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(steps_in("ranks.jsonl"), (Steps{10, 20, 30, 40, 50}));
  EXPECT_EQ(steps_in("hashes.jsonl"), (Steps{20, 40}));
}

/// TensorBoard drops what an earlier file has from the step on with which the next one begins.
TEST_F(ReportTest, TensorBoardHasEveryStepWhereItIsWanted) {
  reported({"log.tensorboard=true"});
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "tensorboard"))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_EQ(files.size(), 2U);
  const auto first = test::records_of(files[0]), second = test::records_of(files[1]);
  ASSERT_EQ(first.size(), 2 + 53U);
  ASSERT_EQ(second.size(), 2 + 10U);
  for (std::size_t i = 0; i < 52; ++i) {
    const test::Event event = test::scalars_of(first[2 + i]);
    EXPECT_EQ(event.step, static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(event.scalars.at("loss"), i < 51 ? 2 : 9);
  }
  const test::Event valid = test::scalars_of(first.back());
  EXPECT_EQ(valid.step, 52);
  EXPECT_EQ(valid.scalars, (std::map<std::string, float>{{"valid/loss", 3}, {"valid/bits_per_byte", 1.5}}));
  EXPECT_EQ(test::number_at<std::int64_t>(test::fields_of(second[1]).at(2).at(0), 0), 41);
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_EQ(test::scalars_of(second[2 + i]).step, 41 + static_cast<int>(i));

  reported({"log.tensorboard=false"});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_ / "tensorboard"), {}), 2);
}

TEST_F(ReportTest, TheLogHasEachTenthStepAndAllElse) {
  reported({});
  std::vector<std::string> expected{"info a note"};
  const auto step = [](int n, const char* loss) {
    return fmt::format("info step {}: loss {}, gradient norm 0.5, 50 tokens/s", n, loss);
  };
  for (int n = 10; n <= 50; n += 10) expected.push_back(step(n, "2.000000"));
  expected.insert(expected.end(), {std::string("warning ") + spike_warning,
                                   "info validation after step 52: loss 3.000000, 1.500000 bits a byte",
                                   step(50, "2.500000")});
  const std::vector<std::string> told = log();
  ASSERT_GT(told.size(), expected.size() + 2) << "the summary of the steps and that of the ranks follow";
  EXPECT_EQ(std::vector(told.begin(), told.begin() + static_cast<std::ptrdiff_t>(expected.size())), expected);
  const auto has = [&](const std::string& start) {
    return std::any_of(told.begin(), told.end(),
                       [&](const std::string& line) { return line.starts_with(start); });
  };
  EXPECT_TRUE(has("info median of "));
  EXPECT_TRUE(has("info mean of 60 steps, without waiting for others"));
}

TEST_F(ReportTest, WithoutProgressOnlyWarningsAreTold) {
  EXPECT_EQ(reported({"log.progress=false"}), std::string(spike_warning) + "\n");
  EXPECT_EQ(reported({"log.progress=false", "log.spike=0"}), "");
  const std::string all = reported({"log.progress=true"});
  for (const std::string& part :
       {std::string(spike_warning), std::string("a note\n"), std::string("median of "),
        std::string("mean of 60 steps, without waiting for others\n")})
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
}

/// Other ranks report nothing, and leave no file.
TEST_F(ReportTest, OtherRanksWriteNothing) {
  Deck deck = test::small_deck({"log.tensorboard=true", "log.progress=true"});
  deck.run.dir = dir_.path();
  testing::internal::CaptureStderr();
  {
    Report report(deck, 1, {{"n1"}, {"n2"}}, {}, {2, 0, {}, {}});
    report.train(after_step(10, 2));
    report.validation(after_step(10, 2));
    report.ranks(10, {10, {2, 2}, {{}, {}}});
    report.note("a note");
    report.saved({.step = 10, .ok = true}, "step-00000010");
    report.go_back(5);
    report.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

}  // namespace
}  // namespace weft::report
