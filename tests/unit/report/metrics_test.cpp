#include "report/metrics.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.hpp"
#include "support/temporary_directory.hpp"
#include "unit/report/lane_seconds.hpp"

namespace weft::report {
namespace {

using nlohmann::json;
using test::read_file;
using test::TemporaryDirectory;

StepMetrics line_of(std::int64_t step, MetricsKind kind = MetricsKind::train) {
  StepMetrics m;
  m.kind = kind;
  m.step = step;
  m.loss = 4.0 / static_cast<double>(step + 1);
  m.grad_norm = 1.25;
  m.lr = 3e-4;
  m.tokens = 8192;
  m.tokens_per_s = 12345.5;
  m.step_s = 0.663561621;
  return m;
}

std::vector<json> lines_of(const std::string& path) {
  std::vector<json> lines;
  std::ifstream in(path);
  // parse() throws on anything but JSON.
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

std::vector<std::int64_t> steps_of(const std::string& path) {
  std::vector<std::int64_t> steps;
  for (const auto& line : lines_of(path)) steps.push_back(line.at("step"));
  return steps;
}

TEST(Metrics, LineHasTheFieldsOfTheInterface) {
  StepMetrics m = line_of(7);
  m.compute_s = 0.5;
  m.comm_s = 0.25;
  m.exposed_comm_s = 0.125;
  m.exposed_gather_s = 0.0625;
  m.exposed_reduce_s = 0.03125;
  m.gather_s = 0.375;
  m.reduce_s = 0.75;
  m.sent_bytes = (1ll << 53) - 1;
  m.mfu = 0.41;
  m.arena_peak_bytes = 1ll << 40;
  m.persistent_bytes = 3;
  m.rss_bytes = 4;
  m.planned_bytes = 5;
  EXPECT_EQ(to_json_line(m),
            "{\"kind\": \"train\", \"step\": 7, \"loss\": 0.5, \"grad_norm\": 1.25, \"lr\": 0.0003, "
            "\"tokens\": 8192, "
            "\"tokens_per_s\": 12345.5, \"step_s\": 0.663561621, \"compute_s\": 0.5, \"comm_s\": 0.25, "
            "\"exposed_comm_s\": 0.125, \"exposed_gather_s\": 0.0625, \"exposed_reduce_s\": 0.03125, "
            "\"gather_s\": 0.375, \"reduce_s\": 0.75, \"sent_bytes\": 9007199254740991, \"mfu\": 0.41, "
            "\"arena_peak_bytes\": 1099511627776, "
            "\"persistent_bytes\": 3, "
            "\"rss_bytes\": 4, \"planned_bytes\": 5}\n");
}

TEST(Metrics, ASpikeIsMarked) {
  StepMetrics m = line_of(7);
  EXPECT_FALSE(json::parse(to_json_line(m)).contains("spike"));
  m.spike = true;
  EXPECT_EQ(json::parse(to_json_line(m)).at("spike"), true);
}

TEST(Metrics, AxesOtherThanDataHaveFieldsWhereTheyAreThere) {
  const auto line = json::parse(to_json_line(line_of(7)));
  for (const auto& [name, field] : test::lane_seconds) {
    const std::string key = name;
    EXPECT_EQ(line.contains(key), key.ends_with("gather_s") || key.ends_with("reduce_s")) << key;
  }
}

TEST(Metrics, SecondsOfEachLaneStandUnderTheirName) {
  StepMetrics m = line_of(7);
  test::count_lane_seconds(m);
  const auto line = json::parse(to_json_line(m));
  double seconds = 0;
  for (const auto& [name, field] : test::lane_seconds) EXPECT_EQ(line.at(name), ++seconds) << name;
  // What the host does not see is null, where the lane is there.
  const auto is_exposed = [](const char* name) { return std::string(name).starts_with("exposed_"); };
  for (const auto& [name, field] : test::lane_seconds)
    if (is_exposed(name)) (m.*field).reset();
  const auto unseen = json::parse(to_json_line(m));
  for (const auto& [name, field] : test::lane_seconds)
    EXPECT_EQ(unseen.at(name).is_null(), is_exposed(name)) << name;
}

TEST(Metrics, WhatWasNotMeasuredIsNull) {
  const auto line = json::parse(to_json_line(StepMetrics{}));
  for (const char* key : {"grad_norm", "lr", "compute_s", "comm_s", "exposed_comm_s", "exposed_gather_s",
                          "exposed_reduce_s", "gather_s", "reduce_s", "sent_bytes", "mfu"})
    EXPECT_TRUE(line.at(key).is_null()) << key;
  EXPECT_FALSE(line.contains("state_hash"));
  EXPECT_FALSE(line.contains("bits_per_byte"));
  EXPECT_FALSE(line.contains("epoch"));
  EXPECT_FALSE(line.contains("nan"));
}

TEST(Metrics, ValidationCarriesBitsPerByteAndHash) {
  StepMetrics m = line_of(3, MetricsKind::valid);
  m.bits_per_byte = 1.8125;
  m.state_hash = 0x00ab;
  const auto line = json::parse(to_json_line(m));
  EXPECT_EQ(line.at("kind"), "valid");
  EXPECT_EQ(line.at("bits_per_byte"), 1.8125);
  EXPECT_EQ(line.at("state_hash"), "00000000000000ab");
}

TEST(Metrics, NineDigitsBringAnyFp32Back) {
  StepMetrics m;
  for (float x = 1e-30f; x < 1e30f; x *= 1.37f) {
    m.loss = x;
    EXPECT_EQ(json::parse(to_json_line(m)).at("loss").get<float>(), x);
  }
}

TEST(Metrics, NotANumberStaysJson) {
  for (const double x : {std::nan(""), -std::nan(""), std::numeric_limits<double>::infinity(), -HUGE_VAL}) {
    StepMetrics m = line_of(1);
    m.loss = x;
    const auto line = json::parse(to_json_line(m));
    EXPECT_TRUE(line.at("loss").is_null());
    EXPECT_EQ(line.at("nan"), true);
    EXPECT_EQ(line.at("grad_norm"), 1.25);
  }
}

TEST(Metrics, EachLineIsInTheFileAtOnce) {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory / "metrics.jsonl");
  for (std::int64_t step = 1; step <= 3; ++step) {
    writer.write(line_of(step));
    EXPECT_EQ(steps_of(writer.path()).size(), static_cast<std::size_t>(step));
  }
}

TEST(Metrics, ResumeDropsLaterStepsAndTornLines) {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  {
    MetricsWriter writer(path);
    for (std::int64_t step = 1; step <= 6; ++step) {
      writer.write(line_of(step));
      if (step % 2 == 0) writer.write(line_of(step, MetricsKind::valid));
    }
  }
  const std::string whole = read_file(path);
  std::ofstream(path, std::ios::app) << std::string(16, '\0') << "\n{\"kind\": \"train\", \"step\": 2, \"lo";
  {
    MetricsWriter writer(path, 4);
    EXPECT_EQ(steps_of(path), (std::vector<std::int64_t>{1, 2, 2, 3, 4, 4}));
    EXPECT_EQ(whole.find(read_file(path)), 0u) << "kept lines keep their bytes";
    writer.write(line_of(5));
  }
  EXPECT_EQ(steps_of(path), (std::vector<std::int64_t>{1, 2, 2, 3, 4, 4, 5}));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(Metrics, ResumeOfAWholeFileLeavesItAlone) {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  MetricsWriter(path).write(line_of(1));
  const auto time = std::filesystem::last_write_time(path);
  MetricsWriter resumed(path, 1);
  EXPECT_EQ(std::filesystem::last_write_time(path), time);
  MetricsWriter without_a_file(directory / "other.jsonl", 5);
  EXPECT_TRUE(steps_of(directory / "other.jsonl").empty());
}

TEST(Metrics, StartingAgainKeepsTheOldCurveAside) {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  MetricsWriter(path).write(line_of(1));
  MetricsWriter(path).write(line_of(2));
  EXPECT_EQ(steps_of(path), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(steps_of(path + ".old"), (std::vector<std::int64_t>{1}));
}

TEST(Metrics, UnwritablePlaceIsOneLine) {
  try {
    MetricsWriter writer("/nowhere/metrics.jsonl");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::environment);
    EXPECT_NE(std::string(e.what()).find("/nowhere/metrics.jsonl (No such file or directory)"),
              std::string::npos);
  }
}

/// Lets no file grow beyond `bytes` while it lives: writes fail with EFBIG in the middle of a record, as on a
/// full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    old_handler_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

TEST(Metrics, FullDiskCostsWholeLinesOnly) {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory / "metrics.jsonl");
  writer.write(line_of(1));
  {
    const FileSizeLimit limit(to_json_line(line_of(1)).size() + 40);
    writer.write(line_of(2));
    EXPECT_EQ(steps_of(writer.path()), (std::vector<std::int64_t>{1}));
  }
  writer.write(line_of(3));
  EXPECT_EQ(steps_of(writer.path()), (std::vector<std::int64_t>{1, 3}));
}

/// A resumed run that took an unreadable file for a missing one would append to lines of steps that no longer
/// count.
TEST(Metrics, WhatCannotBeReadAtResumeIsNotTakenForMissing) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "metrics.jsonl");
  EXPECT_THROW(MetricsWriter(directory / "metrics.jsonl", 5), Error);
}

TEST(Metrics, FullDiskAtResumeLeavesTheOldFile) {
  const TemporaryDirectory directory;
  const auto path = directory / "metrics.jsonl";
  {
    MetricsWriter writer(path);
    for (std::int64_t step = 1; step <= 9; ++step) writer.write(line_of(step));
  }
  const FileSizeLimit limit(100);
  EXPECT_THROW(MetricsWriter(path, 5), Error);
  EXPECT_EQ(steps_of(path).size(), 9u);
}

}  // namespace
}  // namespace weft::report
