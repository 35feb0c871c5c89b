#include "report/tensorboard.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <vector>

#include "support/temporary_directory.hpp"
#include "unit/report/event_file.hpp"
#include "unit/report/lane_seconds.hpp"

namespace weft::report {
namespace {

using test::fields_of;
using test::number_at;
using test::records_of;
using test::scalars_of;
using test::TemporaryDirectory;

TEST(Crc32c, VectorsOfRfc3720) {
  std::string counting, counting_down;
  for (int i = 0; i < 32; ++i) counting += static_cast<char>(i), counting_down += static_cast<char>(31 - i);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(counting), 0x46dd794eu);
  EXPECT_EQ(crc32c(counting_down), 0x113fdb5cu);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

StepMetrics metrics_of(std::int64_t step) {
  StepMetrics m;
  m.step = step;
  m.loss = 2.5;
  m.grad_norm = 0.75;
  m.lr = 3e-4;
  m.tokens_per_s = 1.5e6;
  return m;
}

TEST(EventWriter, FileStartsWithItsVersion) {
  const TemporaryDirectory directory;
  const EventWriter writer(directory / "tensorboard");
  const auto records = records_of(writer.path());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(fields_of(records[0]).at(3).at(0), "brain.Event:2");
  const auto wall = number_at<double>(fields_of(records[0]).at(1).at(0), 0);
  EXPECT_NEAR(wall, static_cast<double>(::time(nullptr)), 60);
  EXPECT_NE(writer.path().find("/events.out.tfevents."), std::string::npos);
}

TEST(EventWriter, ScalarsOfATrainingStep) {
  const TemporaryDirectory directory;
  EventWriter writer(directory.path());
  writer.write(metrics_of(1));
  const auto event = scalars_of(records_of(writer.path()).at(2));
  EXPECT_EQ(event.scalars,
            (std::map<std::string, float>{
                {"loss", 2.5f}, {"grad_norm", 0.75f}, {"lr", 3e-4f}, {"tokens_per_s", 1.5e6f}}));
}

TEST(EventWriter, ScalarsOfTheLanes) {
  const TemporaryDirectory directory;
  EventWriter writer(directory.path());
  StepMetrics m = metrics_of(1);
  test::count_lane_seconds(m);
  m.sent_bytes = 4096;
  writer.write(m);
  auto scalars = scalars_of(records_of(writer.path()).at(2)).scalars;
  for (const char* other : {"loss", "grad_norm", "lr", "tokens_per_s"}) scalars.erase(other);
  std::map<std::string, float> expected{{"comm/sent_bytes", 4096.f}};
  float seconds = 0;
  for (const auto& [name, field] : test::lane_seconds) expected[std::string("comm/") + name] = ++seconds;
  EXPECT_EQ(scalars, expected);
}

TEST(EventWriter, StepsOfAnyVarintLength) {
  const TemporaryDirectory directory;
  EventWriter writer(directory.path());
  const std::vector<std::int64_t> steps{0, 1, 127, 128, 129, 16383, 16384, (1ll << 40) + 300};
  for (const auto step : steps) writer.write(metrics_of(step));
  const auto records = records_of(writer.path());
  ASSERT_EQ(records.size(), steps.size() + 2);
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(scalars_of(records[i + 2]).step, steps[i]);
}

TEST(EventWriter, ScalarsOfAValidation) {
  const TemporaryDirectory directory;
  EventWriter writer(directory.path());
  StepMetrics m = metrics_of(20);
  m.kind = MetricsKind::valid;
  m.bits_per_byte = 1.75;
  writer.write(m);
  const auto event = scalars_of(records_of(writer.path()).at(2));
  EXPECT_EQ(event.scalars,
            (std::map<std::string, float>{{"valid/loss", 2.5f}, {"valid/bits_per_byte", 1.75f}}));
}

TEST(EventWriter, NotANumberIsAPoint) {
  const TemporaryDirectory directory;
  EventWriter writer(directory.path());
  StepMetrics m = metrics_of(1);
  m.loss = NAN;
  writer.write(m);
  EXPECT_TRUE(std::isnan(scalars_of(records_of(writer.path()).at(2)).scalars.at("loss")));
}

TEST(EventWriter, ResumeVoidsLaterPoints) {
  const TemporaryDirectory directory;
  const EventWriter writer(directory.path(), 100);
  const auto start = fields_of(records_of(writer.path()).at(1));
  EXPECT_EQ(number_at<std::int64_t>(start.at(2).at(0), 0), 101);
  // The 1 stands for SessionLog.status = START.
  EXPECT_EQ(number_at<std::int64_t>(fields_of(start.at(7).at(0)).at(1).at(0), 0), 1);
}

TEST(EventWriter, FilesOfOneProcessDoNotMix) {
  const TemporaryDirectory directory;
  const EventWriter first(directory.path()), second(directory.path());
  EXPECT_NE(first.path(), second.path());
  EXPECT_LT(first.path(), second.path());
}

}  // namespace
}  // namespace weft::report
