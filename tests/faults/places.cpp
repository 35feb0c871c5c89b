#include "faults/places.hpp"

#include <fcntl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace weft::faults {
namespace {

std::array<std::string_view, 8> g_watched;
std::size_t g_watched_count = 0;

/// A text that is put together without allocating memory, as a signal handler must.
class Line {
 public:
  explicit Line(Text& text) : text_(text) { text_[0] = '\0'; }
  void add(std::string_view part) {
    const std::size_t n = std::min(part.size(), text_.size() - 1 - size_);
    std::memcpy(text_.data() + size_, part.data(), n);
    size_ += n;
    text_[size_] = '\0';
  }
  void cut(std::size_t size) {
    size_ = size;
    text_[size_] = '\0';
  }
  std::string_view view() const { return {text_.data(), size_}; }

 private:
  Text& text_;
  std::size_t size_ = 0;
};

/// Adds the path that a link of /proc points to.
void add_target(const char* link, Line& line) {
  Text target;
  const long n = call_kernel_with(SYS_readlinkat, AT_FDCWD, link, target.data(), target.size());
  if (n > 0) line.add({target.data(), static_cast<std::size_t>(n)});
}

void add_path_of_descriptor(long descriptor, Line& line) {
  constexpr std::string_view prefix = "/proc/self/fd/";
  std::array<char, 40> link{};
  std::memcpy(link.data(), prefix.data(), prefix.size());
  std::to_chars(link.data() + prefix.size(), link.data() + link.size() - 1, descriptor);
  add_target(link.data(), line);
  constexpr std::string_view gone = " (deleted)";
  if (line.view().ends_with(gone)) line.cut(line.view().size() - gone.size());
}

/// Adds the components of a path one by one, "." and ".." taken out.
void add_components(std::string_view path, Line& line) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view component = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (component.empty() || component == ".") continue;
    if (component == "..") {
      line.cut(std::min(line.view().rfind('/'), line.view().size()));
      continue;
    }
    line.add("/");
    line.add(component);
  }
}

/// Finds the absolute path of an operand; it is empty when the operand has none.
void find_path(const Operand& operand, const Arguments& arguments, Line& line) {
  const auto argument = [&](int n) { return arguments.at(static_cast<std::size_t>(n)); };
  const char* const path = operand.path < 0 ? "" : to_pointer<const char>(argument(operand.path));
  if (path == nullptr) return;
  if (path[0] != '/') {
    const bool here = operand.directory < 0 || static_cast<int>(argument(operand.directory)) == AT_FDCWD;
    if (here && operand.path >= 0 && path[0] == '\0') return;
    if (here && operand.path >= 0)
      add_target("/proc/self/cwd", line);
    else if (operand.directory >= 0)
      add_path_of_descriptor(static_cast<int>(argument(operand.directory)), line);
  }
  add_components(path, line);
}

/// Copies a path without the number of this process, and without the time in the names of TensorBoard's
/// files.
void add_without_chance(std::string_view path, Line& line) {
  constexpr std::string_view events = "/events.out.tfevents.";
  if (const auto at = path.find(events); at != std::string_view::npos)
    path = path.substr(0, at + events.size());
  std::array<char, 24> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), call_kernel_with(SYS_getpid)).ptr;
  const std::string_view pid(digits.data(), static_cast<std::size_t>(end - digits.data()));
  constexpr auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  while (!path.empty()) {
    const auto* const begin = path.data();
    const auto* stop = begin;
    const bool number = is_digit(*begin);
    while (stop != begin + path.size() && is_digit(*stop) == number) ++stop;
    const std::string_view part(begin, static_cast<std::size_t>(stop - begin));
    line.add(part == pid ? "PID" : part);
    path.remove_prefix(part.size());
  }
}

bool name_below(std::string_view watched, std::string_view path, Line& name) {
  if (!path.starts_with(watched)) return false;
  const std::string_view rest = path.substr(watched.size());
  if (!rest.empty() && rest[0] != '/') return false;
  name.add(".");
  add_without_chance(rest, name);
  return true;
}

}  // namespace

void watch_directories(const char* list) {
  for (std::string_view rest = list; !rest.empty() && g_watched_count < g_watched.size();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) g_watched.at(g_watched_count++) = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

bool name_of_file(const SystemCall& call, const Arguments& arguments, Text& name) {
  for (const Operand& operand : {call.first, call.second}) {
    Text text;
    Line path(text);
    find_path(operand, arguments, path);
    for (std::size_t i = 0; i < g_watched_count; ++i) {
      Line found(name);
      if (name_below(g_watched.at(i), path.view(), found)) return true;
    }
  }
  return false;
}

}  // namespace weft::faults
