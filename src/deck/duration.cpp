#include "deck/duration.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace weft::deck {
namespace {

constexpr std::array<std::pair<char, double>, 4> units{{{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};

/// Takes a number without a sign or exponent off the front of `text`.
std::optional<double> take_number(std::string_view& text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return {};
  double value = 0;
  const auto end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc{}) return {};
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return value;
}

std::optional<double> parse_clock(std::string_view text) {
  double seconds = 0;
  if (text.find('-') != text.npos) {
    const auto days = take_number(text);
    if (!days || !text.starts_with('-')) return {};
    text.remove_prefix(1);
    seconds = *days * 86400;
  }
  for (const double unit : {3600.0, 60.0, 1.0}) {
    const auto number = take_number(text);
    if (!number || *number != std::floor(*number) || (unit < 3600 && *number >= 60)) return {};
    seconds += *number * unit;
    if (unit > 1) {
      if (!text.starts_with(':')) return {};
      text.remove_prefix(1);
    }
  }
  if (!text.empty()) return {};
  return seconds;
}

}  // namespace

std::optional<double> parse_duration(std::string_view text) {
  if (text.find(':') != text.npos) return parse_clock(text);
  double seconds = 0;
  std::size_t next = 0;  // units come in falling order, each at most once
  while (!text.empty()) {
    const auto number = take_number(text);
    if (!number || text.empty()) return {};
    while (next < units.size() && units[next].first != text[0]) ++next;
    if (next == units.size()) return {};
    seconds += *number * units[next++].second;
    text.remove_prefix(1);
  }
  if (next == 0) return {};
  return seconds;
}

std::string print_duration(double seconds) {
  if (!(seconds >= 0) || seconds != std::floor(seconds) || seconds > 1e15) return {};
  std::string text;
  for (const auto& [letter, size] : units) {
    const double n = std::floor(seconds / size);
    if (n > 0) text += fmt::format("{:.0f}{}", n, letter);
    seconds -= n * size;
  }
  return text.empty() ? "0s" : text;
}

}  // namespace weft::deck
