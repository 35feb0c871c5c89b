#include "report/progress.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace weft::report {
namespace {

ProgressOptions::Style detect_style(std::FILE* out) {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return ::isatty(::fileno(out)) && !dumb ? ProgressOptions::Style::in_place : ProgressOptions::Style::lines;
}

std::size_t terminal_columns(std::FILE* out) {
  winsize size{};
  return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (!options_.now) options_.now = seconds_now;
  if (options_.out && options_.style == ProgressOptions::Style::detect)
    options_.style = detect_style(options_.out);
  start_s_ = options_.now();
}

Progress::~Progress() {
  finish();
}

void Progress::step(const StepMetrics& metrics) {
  if (!options_.out) return;
  const double now = options_.now();
  update_averages(metrics, now);
  last_ = metrics;
  const bool ends = steps_seen_ == 1 || metrics.step >= options_.total_steps;
  const double since = now - last_draw_s_;
  bool due = ends;
  if (options_.style == ProgressOptions::Style::in_place)
    due = due || since >= options_.redraw_s;
  else
    due = due || (options_.every > 0 ? metrics.step % options_.every == 0 : since >= options_.interval_s);
  if (due) draw();
}

void Progress::update_averages(const StepMetrics& metrics, double now) {
  tokens_.add(static_cast<double>(metrics.tokens));
  step_s_.add(metrics.step_s);
  // Set-up came before the first step, and says nothing about the time to go.
  wall_s_.add(steps_seen_ == 0 ? metrics.step_s : now - last_step_s_);
  last_step_s_ = now;
  ++steps_seen_;
}

std::string Progress::text(std::size_t columns) const {
  const auto to_go = std::max<std::int64_t>(0, options_.total_steps - last_.step);
  const auto total = fmt::format("{}", options_.total_steps);
  std::string line = fmt::format("step {:>{}}/{}  loss {:.4f}", last_.step, total.size(), total, last_.loss);
  const std::array<std::string, 4> fields{
      step_s_.value() > 0 ? fmt::format("{} tokens/s", count_text(tokens_.value() / step_s_.value())) : "",
      to_go > 0 ? fmt::format("ETA {}", duration_text(static_cast<double>(to_go) * wall_s_.value()))
                : fmt::format("took {}", duration_text(last_step_s_ - start_s_)),
      last_.grad_norm ? fmt::format("grad_norm {:.3g}", *last_.grad_norm) : "",
      last_.lr ? fmt::format("lr {:.2e}", *last_.lr) : ""};
  for (const auto& field : fields) {
    if (field.empty()) continue;
    if (line.size() + 2 + field.size() > columns) break;
    line += "  ";
    line += field;
  }
  return line.substr(0, columns);
}

void Progress::draw() {
  if (options_.style == ProgressOptions::Style::in_place) {
    const std::size_t columns =
        options_.width > 0 ? static_cast<std::size_t>(options_.width) : terminal_columns(options_.out);
    // The last column stays free: some terminals wrap as soon as it is written. \x1b[K clears the rest.
    std::fputs(fmt::format("\r{}\x1b[K", text(columns - 1)).c_str(), options_.out);
    line_open_ = true;
  } else {
    const std::size_t columns = options_.width > 0 ? static_cast<std::size_t>(options_.width)
                                                   : std::numeric_limits<std::size_t>::max();
    std::fputs(fmt::format("{}\n", text(columns)).c_str(), options_.out);
  }
  std::fflush(options_.out);
  drawn_step_ = last_.step;
  last_draw_s_ = options_.now();
}

void Progress::validation(const StepMetrics& metrics) {
  note(fmt::format("valid at step {}: loss {:.4f}{}  ({:.1f}s)", metrics.step, metrics.loss,
                   metrics.bits_per_byte ? fmt::format("  bits/byte {:.4f}", *metrics.bits_per_byte) : "",
                   metrics.step_s));
}

void Progress::note(std::string_view line) {
  if (!options_.out) return;
  const bool redraw = line_open_;
  std::fputs(fmt::format("{}{}\n", line_open_ ? "\r\x1b[K" : "", line).c_str(), options_.out);
  line_open_ = false;
  if (redraw)
    draw();
  else
    std::fflush(options_.out);
}

void Progress::finish() {
  if (!options_.out) return;
  if (steps_seen_ > 0 && drawn_step_ != last_.step) draw();
  if (line_open_) {
    std::fputc('\n', options_.out);
    std::fflush(options_.out);
    line_open_ = false;
  }
}

}  // namespace weft::report
