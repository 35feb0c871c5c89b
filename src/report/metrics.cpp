#include "report/metrics.hpp"

#include <fmt/core.h>

#include <cmath>
#include <string_view>

#include "io/step_lines.hpp"

namespace weft::report {
namespace {

/// Builds one object, field by field.
class LineBuilder {
 public:
  void text(std::string_view key, std::string_view value) { field(key, fmt::format("\"{}\"", value)); }
  void boolean(std::string_view key, bool value) { field(key, value ? "true" : "false"); }
  void integer(std::string_view key, std::optional<std::int64_t> value) {
    field(key, value ? fmt::format("{}", *value) : "null");
  }
  void real(std::string_view key, std::optional<double> value) {
    if (value && std::isfinite(*value)) return field(key, fmt::format("{:.9g}", *value));
    nan_ = nan_ || value.has_value();
    field(key, "null");
  }
  void flag(std::string_view key) { field(key, "true"); }
  std::string finish() {
    if (nan_) flag("nan");
    return line_ + "}\n";
  }

 private:
  void field(std::string_view key, std::string_view value) {
    line_ += fmt::format("{}\"{}\": {}", line_.empty() ? "{" : ", ", key, value);
  }

  std::string line_;
  bool nan_ = false;
};

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  LineBuilder line;
  line.text("kind", m.kind == MetricsKind::train ? "train" : "valid");
  line.integer("step", m.step);
  line.real("loss", m.loss);
  line.real("grad_norm", m.grad_norm);
  line.real("lr", m.lr);
  line.integer("tokens", m.tokens);
  line.real("tokens_per_s", m.tokens_per_s);
  line.real("step_s", m.step_s);
  line.real("compute_s", m.compute_s);
  line.real("comm_s", m.comm_s);
  line.real("exposed_comm_s", m.exposed_comm_s);
  line.real("exposed_gather_s", m.exposed_gather_s);
  line.real("exposed_reduce_s", m.exposed_reduce_s);
  line.real("gather_s", m.gather_s);
  line.real("reduce_s", m.reduce_s);
  if (m.replica_s) {
    line.real("exposed_replica_s", m.exposed_replica_s);
    line.real("replica_s", m.replica_s);
  }
  if (m.pipe_s) {
    line.real("exposed_pipe_s", m.exposed_pipe_s);
    line.real("pipe_s", m.pipe_s);
  }
  if (m.tensor_s) {
    line.real("exposed_tensor_s", m.exposed_tensor_s);
    line.real("tensor_s", m.tensor_s);
  }
  if (m.context_s) {
    line.real("exposed_context_s", m.exposed_context_s);
    line.real("context_s", m.context_s);
  }
  line.integer("sent_bytes", m.sent_bytes);
  line.real("mfu", m.mfu);
  line.integer("arena_peak_bytes", m.arena_peak_bytes);
  line.integer("persistent_bytes", m.persistent_bytes);
  line.integer("rss_bytes", m.rss_bytes);
  line.integer("planned_bytes", m.planned_bytes);
  if (m.state_hash) line.text("state_hash", fmt::format("{:016x}", *m.state_hash));
  if (m.bits_per_byte) line.real("bits_per_byte", m.bits_per_byte);
  if (m.epoch) line.real("epoch", m.epoch);
  if (m.spike) line.flag("spike");
  return line.finish();
}

std::string to_json_line(const SaveMetrics& m) {
  LineBuilder line;
  line.text("kind", "save");
  line.integer("step", m.step);
  line.boolean("ok", m.ok);
  line.integer("bytes", m.bytes);
  line.real("seconds", m.seconds);
  line.real("pause_s", m.pause_s);
  line.real("write_s", m.write_s);
  line.real("verify_s", m.verify_s);
  return line.finish();
}

MetricsWriter::MetricsWriter(const std::string& path, std::optional<std::int64_t> resumed_at)
    : file_(io::prepare_step_lines(path, resumed_at)) {}

}  // namespace weft::report
