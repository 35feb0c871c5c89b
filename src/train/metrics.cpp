#include "train/metrics.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.hpp"

namespace weft::train {
namespace {

/// Builds one object, field by field.
class LineBuilder {
 public:
  void text(std::string_view key, std::string_view value) { field(key, fmt::format("\"{}\"", value)); }
  void integer(std::string_view key, std::int64_t value) { field(key, fmt::format("{}", value)); }
  void real(std::string_view key, std::optional<double> value) {
    if (value && std::isfinite(*value)) return field(key, fmt::format("{:.9g}", *value));
    nan_ = nan_ || value.has_value();
    field(key, "null");
  }
  std::string finish() {
    if (nan_) field("nan", "true");
    return line_ + "}\n";
  }

 private:
  void field(std::string_view key, std::string_view value) {
    line_ += fmt::format("{}\"{}\": {}", line_.empty() ? "{" : ", ", key, value);
  }

  std::string line_;
  bool nan_ = false;
};

/// The step of a whole line; empty when the line is torn or not ours.
std::optional<std::int64_t> step_of(std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

/// The lines of `text` that a run resumed at `step` keeps.
std::string lines_up_to(std::string_view text, std::int64_t step) {
  std::string kept;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) break;  // torn: the writer ends every line
    const auto line = text.substr(0, end + 1);
    const auto line_step = step_of(line);
    if (line_step && *line_step <= step) kept += line;
    text.remove_prefix(end + 1);
  }
  return kept;
}

/// Puts `text` in the place of `path`: the old file stays whole until the new one is on the disk.
void replace_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool good = fd >= 0;
  while (good && !text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) text.remove_prefix(static_cast<std::size_t>(n));
  }
  good = good && ::fsync(fd) == 0;
  const int error = errno;  // close may change it
  if (fd >= 0) ::close(fd);
  WEFT_VALIDATE(good, "cannot write {} ({}) free space or choose another run.dir", temporary,
                std::strerror(error));
  WEFT_VALIDATE(std::rename(temporary.c_str(), path.c_str()) == 0,
                "cannot replace {} ({}) choose a writable run.dir", path, std::strerror(errno));
}

const std::string& prepare(const std::string& path, std::optional<std::int64_t> resumed_at) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return path;
  if (!resumed_at) {
    const std::string old = path + ".old";
    WEFT_VALIDATE(std::rename(path.c_str(), old.c_str()) == 0,
                  "cannot set {} aside ({}) choose a writable run.dir", path, std::strerror(errno));
    return path;
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string kept = lines_up_to(text, *resumed_at);
  if (kept.size() != text.size()) replace_file(path, kept);
  return path;
}

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
  line.real("mfu", m.mfu);
  line.integer("arena_peak_bytes", m.arena_peak_bytes);
  line.integer("persistent_bytes", m.persistent_bytes);
  line.integer("rss_bytes", m.rss_bytes);
  if (m.state_hash) line.text("state_hash", fmt::format("{:016x}", *m.state_hash));
  if (m.bits_per_byte) line.real("bits_per_byte", m.bits_per_byte);
  return line.finish();
}

MetricsWriter::MetricsWriter(const std::string& path, std::optional<std::int64_t> resumed_at)
    : file_(prepare(path, resumed_at)) {}

}  // namespace weft::train
