#include "report/rank_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/temporary_directory.hpp"

namespace weft::report {
namespace {

using test::TemporaryDirectory;

TEST(SlowRanks, NameTheSlowestAndItsHost) {
  const TemporaryDirectory directory;
  SlowRanks ranks(directory / "ranks.jsonl", {}, {{"n1"}, {"n1"}, {"n2"}, {"n2"}});
  const std::vector<MemoryBytes> memory{{10, 11}, {20, 21}, {30, 31}, {40, 41}};
  EXPECT_EQ(ranks.add(10, {9, {0.2, 0.21, 0.2, 0.19}, memory}), "");  // all are within a tenth of the median
  EXPECT_EQ(ranks.add(20, {10, {0.2, 0.21, 0.3, 0.19}, memory}),
            "slow: rank 2 on n2 takes 0.3 s of a step for itself, the median rank 0.2 s");
  EXPECT_EQ(ranks.add(21, {0, {0, 0, 0, 0}, memory}), "");
  EXPECT_EQ(
      test::read_file(directory / "ranks.jsonl"),
      "{\"step\": 10, \"steps\": 9, \"slowest\": 1, \"host\": \"n1\", \"own_s\": [0.2, 0.21, 0.2, 0.19], "
      "\"rss_bytes\": [10, 20, 30, 40], \"planned_bytes\": [11, 21, 31, 41]}\n"
      "{\"step\": 20, \"steps\": 10, \"slowest\": 2, \"host\": \"n2\", \"own_s\": [0.2, 0.21, 0.3, 0.19], "
      "\"rss_bytes\": [10, 20, 30, 40], \"planned_bytes\": [11, 21, 31, 41]}\n");
  const auto lines = ranks.lines();
  ASSERT_EQ(lines.size(), 8U);  // four lines in short, and one for each of the four ranks
  EXPECT_EQ(lines[0], "mean of 19 steps, without waiting for others");
  EXPECT_NE(lines[1].find("slowest: rank 2 on n2"), std::string::npos) << lines[1];
  EXPECT_NE(lines[1].find("0.2526 s"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("median: rank 0 on n1"), std::string::npos) << lines[2];
  EXPECT_NE(lines[3].find("fastest: rank 3 on n2"), std::string::npos) << lines[3];
}

/// The second stage has more work than the first. Rank 3 is slow beside its twin, and rank 1 is not.
TEST(SlowRanks, CompareARankWithThoseOfItsPlaceOnThePipe) {
  const TemporaryDirectory directory;
  SlowRanks ranks(directory / "ranks.jsonl", {}, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}});
  EXPECT_EQ(ranks.add(10, {9, {0.1, 0.5, 0.1, 0.51}, {}}), "");
  EXPECT_EQ(
      ranks.add(20, {10, {0.1, 0.5, 0.1, 0.7}, {}}),
      "slow: rank 3 on n2 (pipe 1) takes 0.7 s of a step for itself, the median rank of its place 0.5 s");
  EXPECT_EQ(
      ranks.add(30, {10, {0.14, 0.5, 0.1, 0.51}, {}}),
      "slow: rank 0 on n1 (pipe 0) takes 0.14 s of a step for itself, the median rank of its place 0.1 s");
  const std::string told = test::read_file(directory / "ranks.jsonl");
  for (const char* line : {"\"step\": 20, \"steps\": 10, \"slowest\": 3, \"host\": \"n2\", ",
                           "\"step\": 30, \"steps\": 10, \"slowest\": 0, \"host\": \"n1\", "})
    EXPECT_NE(told.find(line), std::string::npos) << told;
  const auto lines = ranks.lines();
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_NE(lines[1].find("slowest: rank 3 on n2 (pipe 1)"), std::string::npos) << lines[1];
  EXPECT_NE(lines[3].find("fastest: rank 2 on n2 (pipe 0)"), std::string::npos) << lines[3];
}

TEST(SlowRanks, NameNoneWhereEachIsAStageOfItsOwn) {
  const TemporaryDirectory directory;
  SlowRanks ranks(directory / "ranks.jsonl", {}, {{"n1", 0}, {"n1", 1}});
  EXPECT_EQ(ranks.add(10, {9, {0.1, 0.5}, {}}), "");
  EXPECT_EQ(test::read_file(directory / "ranks.jsonl"),
            "{\"step\": 10, \"steps\": 9, \"slowest\": null, \"host\": null, \"own_s\": [0.1, 0.5], "
            "\"rss_bytes\": [], \"planned_bytes\": []}\n");
}

TEST(SlowRanks, StillCountStepsThatTheRunWentBackOver) {
  const TemporaryDirectory directory;
  SlowRanks ranks(directory / "ranks.jsonl", {}, {{"n1"}, {"n2"}});
  ranks.add(10, {9, {0.1, 0.1}, {}});
  ranks.add(20, {10, {0.1, 0.48}, {}});
  ranks.go_back(10);
  ranks.add(20, {10, {0.1, 0.1}, {}});
  const auto lines = ranks.lines();
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0], "mean of 29 steps, without waiting for others");
  EXPECT_NE(lines[1].find("slowest: rank 1 on n2"), std::string::npos) << lines[1];
  EXPECT_NE(lines[1].find("0.231 s"), std::string::npos) << lines[1];
  const std::string told = test::read_file(directory / "ranks.jsonl");
  EXPECT_NE(told.find("\"step\": 10,"), std::string::npos) << told;
  EXPECT_NE(told.find("\"own_s\": [0.1, 0.1], "), std::string::npos) << told;
  EXPECT_EQ(told.find("0.48"), std::string::npos) << told;
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 2) << told;
}

TEST(SlowRanks, SayNothingBeforeTheSecondStep) {
  const TemporaryDirectory directory;
  SlowRanks ranks(directory / "ranks.jsonl", {}, {{"n1"}, {"n1"}});
  EXPECT_EQ(ranks.add(1, {0, {0, 0}, {}}), "");
  EXPECT_TRUE(ranks.lines().empty());
  EXPECT_EQ(test::read_file(directory / "ranks.jsonl"), "");
}

}  // namespace
}  // namespace weft::report
