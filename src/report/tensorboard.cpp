#include "report/tensorboard.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/check.hpp"
#include "io/small_file.hpp"

namespace weft::report {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1u) ? 0x82f63b78u : 0u);
    table[i] = c;
  }
  return table;
}
constexpr auto crc_table = make_crc_table();

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <class T>
void put_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

/// A protobuf message in the making. Wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
class Message {
 public:
  void varint(int field, std::uint64_t value) {
    key(field, 0);
    raw_varint(value);
  }
  void real64(int field, double value) {
    key(field, 1);
    put_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
  }
  void bytes(int field, std::string_view value) {
    key(field, 2);
    raw_varint(value.size());
    bytes_ += value;
  }
  void real32(int field, float value) {
    key(field, 5);
    put_little_endian(bytes_, std::bit_cast<std::uint32_t>(value));
  }
  const std::string& str() const { return bytes_; }

 private:
  void key(int field, int wire_type) {
    raw_varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type));
  }
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Begins an Event { double wall_time = 1; int64 step = 2; ... }.
Message new_event(std::int64_t step) {
  Message event;
  event.real64(1, wall_time());
  event.varint(2, static_cast<std::uint64_t>(step));
  return event;
}

std::string framed(const std::string& data) {
  std::string record;
  put_little_endian(record, std::uint64_t{data.size()});
  put_little_endian(record, masked_crc(record));
  record += data;
  put_little_endian(record, masked_crc(data));
  return record;
}

std::string new_path(const std::string& directory) {
  io::make_directories(directory);
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  // TensorBoard reads a directory's files in the order of their names. The time in a name keeps the order of
  // the runs, to the microsecond.
  const auto microseconds = static_cast<std::int64_t>(wall_time() * 1e6);
  return fmt::format("{}/events.out.tfevents.{}.{:06}.{}.{}", directory, microseconds / 1000000,
                     microseconds % 1000000, host.data(), ::getpid());
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t c = ~0u;
  for (const char byte : bytes) c = (c >> 8) ^ crc_table[(c ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~c;
}

EventWriter::EventWriter(const std::string& directory, std::optional<std::int64_t> resumed_at)
    : file_(new_path(directory)) {
  Message version = new_event(0);
  version.bytes(3, "brain.Event:2");  // Event.file_version, the first record of every file
  file_.append(framed(version.str()));
  Message log;
  log.varint(1, 1);  // SessionLog.status = START
  Message start = new_event(resumed_at ? *resumed_at + 1 : 0);
  // Event.session_log: points in other files at or after this step no longer count.
  start.bytes(7, log.str());
  file_.append(framed(start.str()));
}

void EventWriter::write(std::int64_t step, std::span<const Scalar> scalars) {
  Message summary;
  for (const auto& [tag, value] : scalars) {
    Message point;
    point.bytes(1, tag);                         // Summary.Value.tag
    point.real32(2, static_cast<float>(value));  // Summary.Value.simple_value
    summary.bytes(1, point.str());               // Summary.value, repeated
  }
  Message event = new_event(step);
  event.bytes(5, summary.str());  // Event.summary
  file_.append(framed(event.str()));
}

void EventWriter::write(const StepMetrics& m) {
  std::vector<Scalar> scalars;
  const auto add = [&](std::string_view tag, std::optional<double> value) {
    if (value) scalars.push_back({tag, *value});
  };
  if (m.kind == MetricsKind::train) {
    add("loss", m.loss);
    add("grad_norm", m.grad_norm);
    add("lr", m.lr);
    add("tokens_per_s", m.tokens_per_s);
    add("comm/exposed_gather_s", m.exposed_gather_s);
    add("comm/exposed_reduce_s", m.exposed_reduce_s);
    add("comm/gather_s", m.gather_s);
    add("comm/reduce_s", m.reduce_s);
    add("comm/exposed_replica_s", m.exposed_replica_s);
    add("comm/replica_s", m.replica_s);
    add("comm/exposed_pipe_s", m.exposed_pipe_s);
    add("comm/pipe_s", m.pipe_s);
    add("comm/exposed_tensor_s", m.exposed_tensor_s);
    add("comm/tensor_s", m.tensor_s);
    add("comm/exposed_context_s", m.exposed_context_s);
    add("comm/context_s", m.context_s);
    add("comm/sent_bytes", m.sent_bytes);
  } else {
    add("valid/loss", m.loss);
    add("valid/bits_per_byte", m.bits_per_byte);
  }
  write(m.step, scalars);
}

}  // namespace weft::report
