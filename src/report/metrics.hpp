// metrics.jsonl: one JSON object a step. The field names are an interface: add, never rename.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/append_file.hpp"

namespace weft::report {

enum class MetricsKind : std::uint8_t { train, valid };

/// One line. Seconds and bytes are the maximum over ranks, tokens are over all ranks. An empty optional (not
/// measured in this step, or without meaning for the kind) is written as null.
struct StepMetrics {
  MetricsKind kind = MetricsKind::train;
  /// Optimizer steps done: the first line of a run is 1; a validation carries the step it follows.
  std::int64_t step = 0;
  double loss = 0;                  ///< nats a token, mean over the tokens of the line
  std::optional<double> grad_norm;  ///< before clipping
  /// Training: the step has changed parameters and moments, because loss and gradient norm are finite.
  bool updated = true;
  bool spike = false;  ///< the loss is one (spikes.hpp); no field when it is not
  std::optional<double> lr;
  std::int64_t tokens = 0;  ///< of this line's step (or validation), not since the start
  double tokens_per_s = 0;
  double step_s = 0;
  std::optional<double> compute_s;
  std::optional<double> comm_s;
  std::optional<double> exposed_comm_s;  ///< the plan's time minus its compute-only step's
  /// The compute lane, or the step's end, waited for the lane's collectives.
  std::optional<double> exposed_gather_s, exposed_reduce_s;
  std::optional<double> gather_s, reduce_s;  ///< a collective of the lane was under way
  /// The same two of the lane that sums over replicas; no fields when empty (no replicas).
  std::optional<double> exposed_replica_s, replica_s;
  std::optional<std::int64_t> sent_bytes;  ///< payload that a rank sent to others
  std::optional<double> mfu;
  std::int64_t arena_peak_bytes = 0;
  std::int64_t persistent_bytes = 0;
  std::int64_t rss_bytes = 0;
  std::int64_t planned_bytes = 0;           ///< what rss_bytes may come to: state, arena and baseline
  std::optional<std::uint64_t> state_hash;  ///< written as 16 hex digits; no field when empty
  std::optional<double> bits_per_byte;      ///< no field when empty
};

/// A save that is over. Seconds are the maximum over ranks.
struct SaveMetrics {
  std::int64_t step = 0;
  bool ok = false;
  std::int64_t bytes = 0;  ///< of all ranks
  double seconds = 0;      ///< from begin to end, steps in between included
  double pause_s = 0;      ///< that training waited for it
  double write_s = 0;      ///< a rank's file: checksums, writes, fsync
  double verify_s = 0;     ///< reading it back
};

/// The object as one line with '\n'. Reals carry 9 significant digits, enough for every fp32. JSON has no
/// NaN: a real that is not finite is null, and the line then ends with "nan": true.
std::string to_json_line(const StepMetrics& metrics);
std::string to_json_line(const SaveMetrics& metrics);

/// Appends lines to a metrics.jsonl; each is in the kernel's hands when write() returns. Rank 0 only.
class MetricsWriter {
 public:
  /// As prepare_step_lines(): a resumed run (`resumed_at`) goes on in the same file, a run from the start
  /// sets it aside.
  explicit MetricsWriter(const std::string& path, std::optional<std::int64_t> resumed_at = std::nullopt);

  /// A full disk costs lines and one warning, not the run.
  void write(const StepMetrics& metrics) { file_.append(to_json_line(metrics)); }
  void write(const SaveMetrics& metrics) { file_.append(to_json_line(metrics)); }
  const std::string& path() const { return file_.path(); }

 private:
  io::AppendFile file_;
};

}  // namespace weft::report
