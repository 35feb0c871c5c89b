#include "passes/module_path.hpp"

#include <algorithm>
#include <charconv>

namespace weft::passes {
namespace {

/// Takes the first component off a dotted path, and returns it.
std::string_view take_component(std::string_view& path) {
  const std::size_t dot = std::min(path.find('.'), path.size());
  const std::string_view component = path.substr(0, dot);
  path.remove_prefix(std::min(dot + 1, path.size()));
  return component;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool in_range(std::string_view range, std::string_view component) {
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return false;
  const auto low = number(range.substr(0, dash)), high = number(range.substr(dash + 1)),
             n = number(component);
  return low && high && n && *low <= *n && *n <= *high;
}

}  // namespace

std::optional<std::string> matched_part(std::string_view pattern, std::string_view path) {
  std::string part;
  while (!pattern.empty()) {
    if (path.empty()) return std::nullopt;
    const std::string_view wanted = take_component(pattern), component = take_component(path);
    if (wanted == "*" || wanted == component) {
      part.append(component).append(".");
    } else if (in_range(wanted, component)) {
      part.append(wanted).append(".");
    } else {
      return std::nullopt;
    }
  }
  return part;
}

}  // namespace weft::passes
