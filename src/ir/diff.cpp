// Compares the texts of two graphs (declared in text.hpp).
#include <algorithm>
#include <unordered_map>
#include <vector>

#include <fmt/core.h>

#include "ir/text.hpp"

namespace weft::ir {
namespace {

using Lines = std::vector<std::string_view>;

Lines split(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Finds the lines of `before` that stand in `after`, too, as indices into `after`. It takes the longest
/// increasing subsequence. Lines of a graph text are unique (each makes a value), so this is the longest
/// common subsequence, in n log n.
std::vector<int> matches(const Lines& before, const Lines& after) {
  std::unordered_map<std::string_view, int> place;
  for (std::size_t i = 0; i < after.size(); ++i) place.emplace(after[i], static_cast<int>(i));
  std::vector<int> match(before.size(), -1), best, previous(before.size(), -1);
  std::vector<int> tail_value;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto it = place.find(before[i]);
    if (it == place.end()) continue;
    match[i] = it->second;
    const auto slot = std::lower_bound(tail_value.begin(), tail_value.end(), match[i]) - tail_value.begin();
    if (slot == static_cast<std::ptrdiff_t>(tail_value.size())) {
      tail_value.push_back(match[i]);
      best.push_back(static_cast<int>(i));
    } else {
      tail_value[static_cast<std::size_t>(slot)] = match[i];
      best[static_cast<std::size_t>(slot)] = static_cast<int>(i);
    }
    previous[i] = slot > 0 ? best[static_cast<std::size_t>(slot) - 1] : -1;
  }
  std::vector<int> kept(before.size(), -1);
  for (int i = best.empty() ? -1 : best.back(); i >= 0; i = previous[static_cast<std::size_t>(i)])
    kept[static_cast<std::size_t>(i)] = match[static_cast<std::size_t>(i)];
  return kept;
}

}  // namespace

std::string diff(const std::string& before, const std::string& after) {
  if (before == after) return {};
  const Lines a = split(before), b = split(after);
  const std::vector<int> kept = matches(a, b);
  std::string text;
  int removed = 0, added = 0;
  std::size_t next = 0;
  const auto add_until = [&](std::size_t end) {
    for (; next < end; ++next, ++added) text += fmt::format("+ {}\n", b[next]);
  };
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (kept[i] >= 0) {
      add_until(static_cast<std::size_t>(kept[i]));
      next = static_cast<std::size_t>(kept[i]) + 1;
    } else {
      text += fmt::format("- {}\n", a[i]);
      ++removed;
    }
  }
  add_until(b.size());
  if (removed + added > 0) text += fmt::format("{} lines removed, {} added\n", removed, added);
  return text;
}

}  // namespace weft::ir
