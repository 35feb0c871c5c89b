// The log: rank 0 speaks; other ranks only when something is wrong.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace weft::log {

/// Sets this process's rank among `ranks`; call it once after MPI is up. Ranks other than 0 drop `info`
/// lines, and their warnings and errors carry the rank.
void set_rank(int rank, int ranks);
/// From now on, writes every line of this rank to `path` as well (appending), and no longer to an earlier
/// file. Other threads may log meanwhile. Throws Error(environment) when the file cannot be opened; a line
/// that cannot be written later costs one warning.
void add_file(const std::string& path);

/// Writes whole lines to `out`. Where the progress line stands there, they stand above it.
void tell(std::FILE* out, std::string_view lines);
/// Shows the progress line, which is rewritten in place, on the terminal `out`. Warnings and all other lines
/// stand above it until end_progress_line(). There is one such line at a time.
void show_progress_line(std::FILE* out, std::string_view text);
/// Leaves the progress line as it is, if there is one, so that what follows stands below it.
void end_progress_line();
/// Writes whole lines to `out`, below the progress line, which it ends; no other thread shows one in between.
/// Errors are told this way, because an error may be the last that a run says.
void tell_last(std::FILE* out, std::string_view lines);

/// Writes a line to the file of add_file only, because the progress display has shown it already.
void record(const std::string& line);
/// Writes the lines of an error, which was told already, to that file alone. It waits for `seconds` at most,
/// because the file's storage may not answer: it is for what a process says before it ends.
void record_errors(std::vector<std::string> lines, double seconds);

void write_info(const std::string& line);
void write_warn(const std::string& line);
void write_error(const std::string& line);
/// What warn_for_all() does with its line.
void write_or_keep_warning(std::string line);
/// Returns the warnings that this rank keeps, in their order, and keeps them no longer.
std::vector<std::string> take_kept_warnings();

template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write_info(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write_warn(fmt::format(format, std::forward<Args>(args)...));
}
/// Warns of what other ranks have to warn of, too, because it comes of the deck or of the machine. A process
/// without other ranks says it at once. One of several keeps it for comm::tell_kept_warnings(), where one
/// rank says it for all.
template <class... Args>
void warn_for_all(fmt::format_string<Args...> format, Args&&... args) {
  write_or_keep_warning(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write_error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weft::log
