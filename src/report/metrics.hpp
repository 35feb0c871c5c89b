// Writes metrics.jsonl: one JSON object for each step. The field names are an interface: add some, but never
// rename one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/append_file.hpp"

namespace weft::report {

enum class MetricsKind : std::uint8_t { train, valid };

/// What one line says. Seconds and bytes are the maximum over ranks, tokens are over all ranks. An empty
/// optional (not measured in this step, or without meaning for the kind) is written as null.
struct StepMetrics {
  MetricsKind kind = MetricsKind::train;
  /// Optimizer steps done: the first line of a run has 1, and a validation has the step that it follows.
  std::int64_t step = 0;
  double loss = 0;                  ///< nats a token: the mean over the tokens of this line
  std::optional<double> grad_norm;  ///< norm before clipping
  /// In training: the step has changed parameters and moments, because loss and gradient norm are finite.
  bool updated = true;
  bool spike = false;  ///< the loss is a spike (spikes.hpp); no field when it is not
  std::optional<double> lr;
  std::int64_t tokens = 0;  ///< tokens of this line's step (or validation), not since the start
  double tokens_per_s = 0;
  double step_s = 0;
  /// The plan less the time for which the compute lane waited. Where the host does not see its waits (several
  /// ranks on GPUs) it is the compute-only step, which was measured at start-up: the same in every step.
  std::optional<double> compute_s;
  std::optional<double> comm_s;
  std::optional<double> exposed_comm_s;  ///< seconds of the step less those of the compute-only step
  /// How long the compute lane, or the step's end, waited for the lane's collectives.
  std::optional<double> exposed_gather_s, exposed_reduce_s;
  std::optional<double> gather_s, reduce_s;  ///< how long a collective of the lane was under way
  /// The exposed time, and the time under way, of the lane that sums over replicas. A run without replicas
  /// has no such fields.
  std::optional<double> exposed_replica_s, replica_s;
  /// The exposed time, and the time under way, of the lanes of a pipe together. Waiting for another stage's
  /// work is exposed time, too. A run without a pipe has no such fields.
  std::optional<double> exposed_pipe_s, pipe_s;
  /// The exposed time, and the time under way, of the lanes of a tensor axis together. A run without this
  /// axis has no such fields.
  std::optional<double> exposed_tensor_s, tensor_s;
  /// The exposed time, and the time under way, of the lane of a context axis. A run without this axis has no
  /// such fields.
  std::optional<double> exposed_context_s, context_s;
  std::optional<std::int64_t> sent_bytes;  ///< payload that a rank sent to others
  std::optional<double> mfu;
  std::int64_t arena_peak_bytes = 0;
  std::int64_t persistent_bytes = 0;
  std::int64_t rss_bytes = 0;
  std::int64_t planned_bytes = 0;  ///< the most that rss_bytes should reach: state, arena and baseline
  std::optional<std::uint64_t> state_hash;  ///< written as 16 hex digits; no field when empty
  std::optional<double> bits_per_byte;      ///< no field when empty
  std::optional<double> epoch;  ///< passes over data.train up to this step's end; no field when empty
};

/// A save that has ended. Seconds are the maximum over ranks.
struct SaveMetrics {
  std::int64_t step = 0;
  bool ok = false;
  std::int64_t bytes = 0;  ///< bytes of all ranks
  double seconds = 0;      ///< from the save's beginning to its end, with the steps in between
  double pause_s = 0;      ///< how long training waited for it
  double write_s = 0;      ///< a rank's file: checksums, writes and fsync
  double verify_s = 0;     ///< how long a rank read its file back
};

/// The metrics as one line of JSON with '\n'. Reals have 9 significant digits, enough for every fp32. JSON
/// has no NaN, so a real that is not finite is null, and the line then ends with "nan": true.
std::string to_json_line(const StepMetrics& metrics);
std::string to_json_line(const SaveMetrics& metrics);

/// Appends lines to a metrics.jsonl, on rank 0 only. When write() returns, the kernel has the line.
class MetricsWriter {
 public:
  /// Prepares the file by prepare_step_lines(): a resumed run (`resumed_at`) goes on in the same file, and a
  /// run from the start sets it aside.
  explicit MetricsWriter(const std::string& path, std::optional<std::int64_t> resumed_at = std::nullopt);

  /// Writes a line. A full disk costs lines and one warning, not the run.
  void write(const StepMetrics& metrics) { file_.append(to_json_line(metrics)); }
  void write(const SaveMetrics& metrics) { file_.append(to_json_line(metrics)); }
  const std::string& path() const { return file_.path(); }

 private:
  io::AppendFile file_;
};

}  // namespace weft::report
