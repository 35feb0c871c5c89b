#include "base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <utility>

#include "base/check.hpp"
#include "base/done_within.hpp"

namespace weft::log {
namespace {

int g_rank = 0;
std::shared_ptr<spdlog::sinks::sink> g_file;

/// A full disk costs lines of the log and one warning, not the run. `why` names the file.
void file_failed(const std::string& why) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) write_warn(why + "; the run goes on without these lines of its log");
}

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger l("weft", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l.set_pattern("%v");
    l.flush_on(spdlog::level::info);
    l.set_error_handler(file_failed);
    return l;
  }();
  return instance;
}

}  // namespace

void set_rank(int rank) {
  g_rank = rank;
}

void add_file(const std::string& path) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, /*truncate=*/false);
    sink->set_pattern("%Y-%m-%dT%H:%M:%S %l %v");
    logger().sinks().push_back(sink);
    g_file = sink;
  } catch (const spdlog::spdlog_ex& e) {
    WEFT_SYSTEM(false, "cannot open the log {} ({}); choose a writable run.dir", path, e.what());
  }
}

void record(const std::string& line) {
  if (!g_file) return;
  try {
    g_file->log(spdlog::details::log_msg("weft", spdlog::level::info, line));
    g_file->flush();
  } catch (const spdlog::spdlog_ex& e) {
    file_failed(e.what());
  }
}

void record_last(std::vector<std::string> lines, double seconds) {
  if (!g_file) return;
  done_within(seconds, [lines = std::move(lines)] {
    for (const std::string& line : lines) record(line);
  });
}

void write_info(const std::string& line) {
  if (g_rank == 0) logger().info(line);
}
void write_warn(const std::string& line) {
  logger().warn("weft: warning: rank {}: {}", g_rank, line);
}
void write_error(const std::string& line) {
  logger().error("weft: error: rank {}: {}", g_rank, line);
}

}  // namespace weft::log
