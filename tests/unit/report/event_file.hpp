// Reads event files back by a decoder of its own: a bitwise CRC-32C, and a walk over protobuf wire types.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/temporary_directory.hpp"

namespace weft::test {

inline std::uint32_t slow_masked_crc(std::string_view bytes) {
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
inline std::vector<std::string> records_of(const std::string& path) {
  const std::string bytes = read_file(path);
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

inline Fields fields_of(std::string_view bytes) {
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

/// A record with points.
struct Event {
  std::int64_t step = 0;
  std::map<std::string, float> scalars;
};

inline Event scalars_of(const std::string& record) {
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

}  // namespace weft::test
