// The log: rank 0 speaks; other ranks only when something is wrong.
#pragma once

#include <fmt/core.h>

#include <string>

namespace weft::log {

/// Call once after MPI is up. Ranks other than 0 drop `info` lines; warnings and errors carry the rank.
void set_rank(int rank);
/// Also write every line of this rank to `path` (appending). Throws Error(environment) when it cannot be
/// opened; what cannot be written later costs one warning.
void add_file(const std::string& path);

/// To the file of add_file only: what the progress display has shown already.
void record(const std::string& line);

void write_info(const std::string& line);
void write_warn(const std::string& line);
void write_error(const std::string& line);

template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write_info(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write_warn(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write_error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weft::log
