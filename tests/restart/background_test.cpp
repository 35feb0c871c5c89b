// Tests saves that are written while training goes on.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class Background : public Workspace {};

/// A checkpoint of step N is the state after step N, whatever the steps after it do meanwhile: a run that
/// goes on from each of them has the curve of the run that wrote them, as has one that waits for its saves.
TEST_F(Background, TheStateOfTheStepIsSaved) {
  const std::vector<std::string> often{"checkpoint.every=2", "checkpoint.keep=100", "debug.hash_every=1"};
  ASSERT_EQ(run(weft_on(2, train("first", often))).status, 0);
  const auto whole = curve(run_dir("first"));
  ASSERT_EQ(saves(run_dir("first")).size(), 5U);
  std::int64_t step = 2;
  for (const auto& line : saves(run_dir("first"))) {
    EXPECT_EQ(line.at("step"), step);
    EXPECT_EQ(line.at("ok"), true);
    EXPECT_GT(line.at("bytes"), 1000000);
    EXPECT_GT(line.at("write_s"), 0);
    EXPECT_LE(line.at("pause_s"), line.at("seconds").get<double>() + 0.05);
    const std::string from =
        "checkpoint.resume=" + checkpoints("first") + "/step-0000000" + std::to_string(step);
    if (step < 10) {
      const std::string name = "from" + std::to_string(step);
      EXPECT_STATUS(run(weft_on(2, train(name, {"debug.hash_every=1", from}))), 0);
      EXPECT_EQ(curve(run_dir(name)), curve(run_dir("first"), step));
    }
    step += 2;
  }
  auto waiting = often;
  waiting.emplace_back("checkpoint.background=false");
  ASSERT_EQ(run(weft_on(2, train("waiting", waiting))).status, 0);
  EXPECT_EQ(curve(run_dir("waiting")), whole);
}

TEST_F(Background, MultiplesStay) {
  ASSERT_EQ(
      run(weft_on(2, train("first", {"checkpoint.every=1", "checkpoint.keep=2", "checkpoint.keep_every=4"})))
          .status,
      0);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoints("first")))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"latest", "step-00000004", "step-00000008", "step-00000009",
                                          "step-00000010"}));
}

/// Two matrices are longer than 64 KiB, in the weights and in both moments, and none is longer than the 4 MiB
/// that are the default.
TEST_F(Background, LongDatasetsBeginWhereTheDeckSays) {
  EXPECT_STATUS(run(weft(train("run", {"run.steps=2", "checkpoint.alignment=64KiB"}))), 0);
  std::istringstream lines(read_file(checkpoints("run") + "/latest/slices.jsonl"));
  int found = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json shard = nlohmann::json::parse(line);
    for (const auto& slice : shard.at("slices")) {
      constexpr std::int64_t alignment = 64 << 10, bytes_an_element = 4;
      if (bytes_an_element * slice.at(4).get<std::int64_t>() < alignment) continue;
      EXPECT_EQ(slice.at(5).get<std::int64_t>() % alignment, 0) << slice;
      ++found;
    }
  }
  EXPECT_EQ(found, 2 * 3);
}

#ifdef WEFT_FAULTS_LIBRARY
/// To leave the page cache out, a shard is opened once more to write it, and once more to read it back.
TEST_F(Background, ThePageCacheIsLeftOutWhereTheDeckSaysSo) {
  const auto opens = [&](const std::string& direct_io) {
    const std::string log = path("calls-" + direct_io), name = "direct-" + direct_io;
    const auto command = weft(train(name, {"run.steps=2", "checkpoint.direct_io=" + direct_io}));
    EXPECT_STATUS(run(with_faults(command, run_dir(name), {"WEFT_FAULTS_LOG=" + log})), 0);
    std::ifstream calls(log);
    int count = 0;
    for (std::string call, number, file; calls >> call >> number >> file;)
      count += call == "openat" && file.ends_with("/shard-00000.h5");
    return count;
  };
  const int without = opens("false");
  EXPECT_GE(without, 1) << "it is read back";
  EXPECT_EQ(opens("true"), without + 2);
}
#endif

/// There is room for the run, but not for the copy. The schedule is fixed, because else the plan would make
/// room.
TEST_F(Background, WithoutMemoryForTheCopyTrainingWaits) {
  std::vector<std::string> sets{"checkpoint.every=5", "schedule.bucketing=none", "schedule.prefetch=0",
                                "schedule.reduce_delay=0"};
  const Ended with = run(weft(train("with", sets)));
  ASSERT_EQ(with.status, 0);
  EXPECT_TRUE(with.lines("there is no memory").empty()) << with.err;
  const auto planned = metrics(run_dir("with")).front().at("planned_bytes").get<std::int64_t>();
  constexpr std::int64_t half_of_the_copy = 750 << 10;
  sets.push_back("run.memory_limit=" + std::to_string(planned - half_of_the_copy));
  const Ended without = run(weft(train("without", sets)));
  EXPECT_STATUS(without, 0);
  EXPECT_EQ(without.lines("there is no memory for a copy of the state").size(), 1U) << without.err;
  EXPECT_EQ(curve(run_dir("without")), curve(run_dir("with")));
}

}  // namespace
}  // namespace weft::test
