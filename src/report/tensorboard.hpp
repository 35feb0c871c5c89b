// TensorBoard event files: scalars only. Format: TFRecord framing (length, masked CRC-32C of the length,
// data, masked CRC-32C of the data; little-endian) around protobuf messages tensorflow.Event, written by
// hand.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/append_file.hpp"
#include "report/metrics.hpp"

namespace weft::report {

/// CRC-32C (Castagnoli; RFC 3720, B.4).
std::uint32_t crc32c(std::string_view bytes);

struct Scalar {
  std::string_view tag;
  double value = 0;  ///< stored as fp32, the format's type
};

/// Writes one event file of a run; TensorBoard shows it live. Rank 0 only. A full disk costs records, not the
/// run.
class EventWriter {
 public:
  /// Creates events.out.tfevents.<time>.<host>.<pid> in `directory`, which is made when missing. Points of
  /// steps after `resumed_at` (of all steps when empty) that earlier files in the directory hold are declared
  /// void. Throws Error(environment) when the file cannot be made.
  explicit EventWriter(const std::string& directory, std::optional<std::int64_t> resumed_at = std::nullopt);

  /// One point in each of the scalars' curves.
  void write(std::int64_t step, std::span<const Scalar> scalars);
  /// The curves of a metrics line: loss, grad_norm, lr, tokens_per_s, and comm/ with what was measured of the
  /// lanes; of a validation valid/loss, valid/bits_per_byte.
  void write(const StepMetrics& metrics);
  const std::string& path() const { return file_.path(); }

 private:
  io::AppendFile file_;
};

}  // namespace weft::report
