// Writes TensorBoard event files, with scalars only. The format is TFRecord framing (length, masked CRC-32C
// of the length, data, masked CRC-32C of the data; little-endian) around protobuf messages tensorflow.Event,
// which are written by hand.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/append_file.hpp"
#include "report/metrics.hpp"

namespace weft::report {

/// The CRC-32C of some bytes (Castagnoli; RFC 3720, B.4).
std::uint32_t crc32c(std::string_view bytes);

struct Scalar {
  std::string_view tag;
  double value = 0;  ///< stored as fp32, which is the format's type
};

/// Writes one event file of a run, on rank 0 only; TensorBoard shows it while it grows. A full disk costs
/// records, not the run.
class EventWriter {
 public:
  /// Creates events.out.tfevents.<time>.<host>.<pid> in `directory`, which is made when it is missing. Points
  /// of steps after `resumed_at` (of all steps when it is empty) that earlier files in the directory hold no
  /// longer count. Throws Error(environment) when the file cannot be made.
  explicit EventWriter(const std::string& directory, std::optional<std::int64_t> resumed_at = std::nullopt);

  /// Writes one point for each of the scalars' curves.
  void write(std::int64_t step, std::span<const Scalar> scalars);
  /// Writes the points of a metrics line: loss, grad_norm, lr, tokens_per_s, and under comm/ what was
  /// measured of the lanes; for a validation valid/loss and valid/bits_per_byte.
  void write(const StepMetrics& metrics);
  const std::string& path() const { return file_.path(); }

 private:
  io::AppendFile file_;
};

}  // namespace weft::report
