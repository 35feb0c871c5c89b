#include "report/progress.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <limits>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace weft::report {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// The width of the launcher's terminal. Under mpirun and srun a rank writes into a pipe, even where its
/// launcher writes to a terminal. jobs/launch.sh looks before it starts them, and says how wide that terminal
/// is; 0: it has not seen one.
std::size_t columns_of_launcher() {
  const std::string_view text = variable("WEFT_TERMINAL_COLUMNS");
  std::size_t columns = 0;
  std::from_chars(text.data(), text.data() + text.size(), columns);
  return columns;
}

ProgressOptions::Style detect_style(std::FILE* out) {
  const std::string_view term = variable("TERM");
  const bool dumb = term.empty() || term == "dumb";
  const bool terminal = ::isatty(::fileno(out)) || columns_of_launcher() > 0;
  return terminal && !dumb ? ProgressOptions::Style::in_place : ProgressOptions::Style::lines;
}

/// Finds out whether the locale is of UTF-8, by the same variables as the C library, and in the same order.
ProgressOptions::Bar detect_bar() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = variable(name);
    if (locale.empty()) continue;
    const bool utf8 = locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
    return utf8 ? ProgressOptions::Bar::blocks : ProgressOptions::Bar::ascii;
  }
  return ProgressOptions::Bar::ascii;
}

std::size_t terminal_columns(std::FILE* out) {
  winsize size{};
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const std::size_t launcher = columns_of_launcher();
  return launcher > 0 ? launcher : 80;
}

/// A bar as text, "[######----]", of columns + 2 characters. Blocks fill an eighth of a column at a time.
std::string bar_text(double done, std::size_t columns, ProgressOptions::Bar bar) {
  const double filled = std::clamp(done, 0.0, 1.0) * static_cast<double>(columns);
  const auto whole = static_cast<std::size_t>(filled);
  if (bar == ProgressOptions::Bar::ascii)
    return '[' + std::string(whole, '#') + std::string(columns - whole, '-') + ']';
  static constexpr std::array<std::string_view, 8> eighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const std::string_view part = eighths[static_cast<std::size_t>(8 * (filled - static_cast<double>(whole)))];
  std::string text = "[";
  for (std::size_t i = 0; i < whole; ++i) text += "█";
  text += part;
  return text + std::string(columns - whole - (part.empty() ? 0 : 1), ' ') + ']';
}

/// Appends fields to a line that is `width` columns wide, up to the first that does not fit.
void append(std::string& line, std::size_t width, std::size_t columns,
            std::initializer_list<std::string_view> fields) {
  for (const std::string_view field : fields) {
    if (field.empty()) continue;
    width += 2 + field.size();
    if (width > columns) return;
    line += "  ";
    line += field;
  }
}

}  // namespace

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (!options_.now) options_.now = seconds_now;
  if (options_.out && options_.style == ProgressOptions::Style::detect)
    options_.style = detect_style(options_.out);
  if (options_.bar == ProgressOptions::Bar::detect) options_.bar = detect_bar();
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

Progress::Fields Progress::fields() const {
  const auto to_go = std::max<std::int64_t>(0, options_.total_steps - last_.step);
  const auto total = fmt::format("{}", options_.total_steps);
  Fields fields;
  fields.step = fmt::format("step {:>{}}/{}", last_.step, total.size(), total);
  fields.loss = fmt::format("loss {:.4f}", last_.loss);
  if (step_s_.value() > 0)
    fields.rate = fmt::format("{} tokens/s", count_text(tokens_.value() / step_s_.value()));
  fields.time = to_go > 0 ? fmt::format("ETA {}", duration_text(static_cast<double>(to_go) * wall_s_.value()))
                          : fmt::format("took {}", duration_text(last_step_s_ - start_s_));
  if (last_.grad_norm) fields.grad_norm = fmt::format("grad_norm {:.3g}", *last_.grad_norm);
  if (last_.lr) fields.lr = fmt::format("lr {:.2e}", *last_.lr);
  return fields;
}

std::string Progress::text(std::size_t columns) const {
  const Fields f = fields();
  std::string line = fmt::format("{}  {}", f.step, f.loss);
  append(line, line.size(), columns, {f.rate, f.time, f.grad_norm, f.lr});
  return line.substr(0, columns);
}

std::string Progress::text_with_bar(std::size_t columns) const {
  constexpr std::size_t narrow = 60, shortest = 10, longest = 40;
  if (columns < narrow || options_.total_steps <= 0) return text(columns);
  const Fields f = fields();
  const std::size_t bar = std::clamp(columns / 4, shortest, longest);
  const double done = static_cast<double>(last_.step) / static_cast<double>(options_.total_steps);
  std::string line = fmt::format("{} {}", f.step, bar_text(done, bar, options_.bar));
  append(line, f.step.size() + 1 + bar + 2, columns, {f.time, f.loss, f.rate, f.grad_norm, f.lr});
  return line;
}

void Progress::draw() {
  if (options_.style == ProgressOptions::Style::in_place) {
    const std::size_t columns =
        options_.width > 0 ? static_cast<std::size_t>(options_.width) : terminal_columns(options_.out);
    // The last column stays free: some terminals wrap as soon as it is written.
    log::show_progress_line(options_.out, text_with_bar(columns - 1));
  } else {
    const std::size_t columns = options_.width > 0 ? static_cast<std::size_t>(options_.width)
                                                   : std::numeric_limits<std::size_t>::max();
    log::tell(options_.out, text(columns) + '\n');
  }
  drawn_step_ = last_.step;
  last_draw_s_ = options_.now();
}

void Progress::validation(const StepMetrics& metrics) {
  note(fmt::format("valid at step {}: loss {:.4f}{}  ({:.1f}s)", metrics.step, metrics.loss,
                   metrics.bits_per_byte ? fmt::format("  bits/byte {:.4f}", *metrics.bits_per_byte) : "",
                   metrics.step_s));
}

void Progress::note(std::string_view line) {
  if (options_.out) log::tell(options_.out, fmt::format("{}\n", line));
}

void Progress::finish() {
  if (!options_.out) return;
  // Where an exception ends the run, its message stands last.
  const bool fails = std::uncaught_exceptions() > 0;
  if (!fails && steps_seen_ > 0 && drawn_step_ != last_.step) draw();
  log::end_progress_line();
}

}  // namespace weft::report
