// Reads event files back by a decoder of its own: a bitwise CRC-32C, and a walk over protobuf wire types.
#include "report/tensorboard.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <vector>

#include "support/temporary_directory.hpp"

namespace weft::report {
namespace {

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

std::uint32_t slow_masked_crc(std::string_view bytes) {
  std::uint32_t c = 0xffffffffu;
  for (const char byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool differ = ((c ^ (static_cast<unsigned char>(byte) >> bit)) & 1u) != 0;
      c = (c >> 1) ^ (differ ? 0x82f63b78u : 0u);
    }
  c = ~c;
  return ((c >> 15) | (c << 17)) + 0xa282ead8u;
}

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.substr(at, sizeof value).data(), sizeof value);
  return value;
}

/// Reads the records of an event file, and checks both checksums and that nothing is left over.
std::vector<std::string> records_of(const std::string& path) {
  const std::string bytes = test::read_file(path);
  std::vector<std::string> records;
  std::size_t at = 0;
  while (at + 12 <= bytes.size()) {
    const auto length = number_at<std::uint64_t>(bytes, at);
    EXPECT_EQ(number_at<std::uint32_t>(bytes, at + 8), slow_masked_crc(bytes.substr(at, 8)));
    if (at + 16 + length > bytes.size()) break;
    records.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(number_at<std::uint32_t>(bytes, at + 12 + length), slow_masked_crc(records.back()));
    at += 16 + length;
  }
  EXPECT_EQ(at, bytes.size()) << "torn record";
  return records;
}

/// The values' bytes (varints as 8 bytes), in order, by field number.
using Fields = std::map<int, std::vector<std::string>>;

Fields fields_of(std::string_view bytes) {
  Fields fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.size()) {
    const auto key = varint();
    std::string value;
    if ((key & 7) == 0) {
      const auto v = varint();
      value.assign(reinterpret_cast<const char*>(&v), sizeof v);
    } else {
      const std::size_t length = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
      value = bytes.substr(at, length);
      at += length;
    }
    fields[static_cast<int>(key >> 3)].push_back(value);
  }
  return fields;
}

struct Event {
  std::int64_t step = 0;
  std::map<std::string, float> scalars;
};

Event scalars_of(const std::string& record) {
  auto fields = fields_of(record);
  Event event;
  event.step = number_at<std::int64_t>(fields.at(2).at(0), 0);
  const auto summary = fields_of(fields.at(5).at(0));
  for (const auto& value : summary.at(1)) {
    const auto point = fields_of(value);
    event.scalars[point.at(1).at(0)] = number_at<float>(point.at(2).at(0), 0);
  }
  return event;
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
  m.exposed_gather_s = 0.5;
  m.exposed_reduce_s = 0.25;
  m.gather_s = 2;
  m.reduce_s = 1;
  m.sent_bytes = 4096;
  writer.write(m);
  auto scalars = scalars_of(records_of(writer.path()).at(2)).scalars;
  for (const char* other : {"loss", "grad_norm", "lr", "tokens_per_s"}) scalars.erase(other);
  EXPECT_EQ(scalars, (std::map<std::string, float>{{"comm/exposed_gather_s", 0.5f},
                                                   {"comm/exposed_reduce_s", 0.25f},
                                                   {"comm/gather_s", 2.f},
                                                   {"comm/reduce_s", 1.f},
                                                   {"comm/sent_bytes", 4096.f}}));
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
