#include "base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.hpp"
#include "base/done_within.hpp"

namespace weft::log {
namespace {

int g_rank = 0;
int g_ranks = 1;

/// The warnings that this rank keeps.
std::mutex g_kept_mutex;
std::vector<std::string> g_kept;

/// Guards the pointer only: a line that waits for its storage must not keep others off the terminal.
std::mutex g_file_mutex;
std::shared_ptr<spdlog::sinks::sink> g_file;

std::shared_ptr<spdlog::sinks::sink> file() {
  const std::lock_guard guard(g_file_mutex);
  return g_file;
}

/// The progress line and where it stands; null: there is none.
struct ProgressLine {
  std::mutex mutex;  ///< held while anything is written to the terminal
  std::FILE* out = nullptr;
  std::string text;
};
ProgressLine g_progress;

void put(std::FILE* out, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
}

/// Ends the progress line; call it with its mutex held.
void end_held_progress_line() {
  if (g_progress.out == nullptr) return;
  put(g_progress.out, "\n");
  g_progress.out = nullptr;
}

/// A full disk costs lines of the log and one warning, not the run.
void write_to_file(spdlog::level::level_enum level, const std::string& line) {
  const auto sink = file();
  if (!sink) return;
  try {
    sink->log(spdlog::details::log_msg("weft", level, line));
    sink->flush();
  } catch (const spdlog::spdlog_ex& e) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) warn("{}; the run goes on without these lines of its log", e.what());
  }
}

void write(spdlog::level::level_enum level, const std::string& line) {
  tell(stderr, line + '\n');
  write_to_file(level, line);
}

}  // namespace

void set_rank(int rank, int ranks) {
  g_rank = rank;
  g_ranks = ranks;
}

void add_file(const std::string& path) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, /*truncate=*/false);
    sink->set_pattern("%Y-%m-%dT%H:%M:%S %l %v");
    const std::lock_guard guard(g_file_mutex);
    g_file = std::move(sink);
  } catch (const spdlog::spdlog_ex& e) {
    WEFT_SYSTEM(false, "cannot open the log {} ({}); choose a writable run.dir", path, e.what());
  }
}

void tell(std::FILE* out, std::string_view lines) {
  const std::lock_guard guard(g_progress.mutex);
  if (out != g_progress.out) return put(out, lines);
  put(out, fmt::format("\r\x1b[K{}{}", lines, g_progress.text));
}

void show_progress_line(std::FILE* out, std::string_view text) {
  const std::lock_guard guard(g_progress.mutex);
  g_progress.out = out;
  g_progress.text = fmt::format("\r{}\x1b[K", text);
  put(out, g_progress.text);
}

void end_progress_line() {
  const std::lock_guard guard(g_progress.mutex);
  end_held_progress_line();
}

void tell_last(std::FILE* out, std::string_view lines) {
  const std::lock_guard guard(g_progress.mutex);
  end_held_progress_line();
  put(out, lines);
}

void record(const std::string& line) {
  write_to_file(spdlog::level::info, line);
}

void record_errors(std::vector<std::string> lines, double seconds) {
  if (!file()) return;
  done_within(seconds, [lines = std::move(lines)] {
    for (const std::string& line : lines) write_to_file(spdlog::level::err, line);
  });
}

void write_info(const std::string& line) {
  if (g_rank == 0) write(spdlog::level::info, line);
}
void write_warn(const std::string& line) {
  write(spdlog::level::warn, fmt::format("weft: warning: rank {}: {}", g_rank, line));
}
void write_or_keep_warning(std::string line) {
  if (g_ranks == 1) return write_warn(line);
  const std::lock_guard guard(g_kept_mutex);
  g_kept.push_back(std::move(line));
}
std::vector<std::string> take_kept_warnings() {
  const std::lock_guard guard(g_kept_mutex);
  return std::exchange(g_kept, {});
}
void write_error(const std::string& line) {
  const std::string text = fmt::format("weft: error: rank {}: {}", g_rank, line);
  tell_last(stderr, text + '\n');
  write_to_file(spdlog::level::err, text);
}

}  // namespace weft::log
