#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <string_view>

namespace weft {
namespace {

std::string utc(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), format, &parts);
  return text.data();
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  static constexpr std::array<std::string_view, 6> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

std::string count_text(double x) {
  static constexpr std::array<std::string_view, 6> suffixes{"", "k", "M", "G", "T", "P"};
  std::size_t i = 0;
  // From 999.5 on, a number would print with four digits.
  for (; std::abs(x) >= 999.5 && i + 1 < suffixes.size(); ++i) x /= 1000;
  const int decimals = std::abs(x) < 9.995 ? 2 : std::abs(x) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", x, i == 0 ? std::min(decimals, 1) : decimals, suffixes[i]);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds > 1e9) return "?";
  const auto s = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m {:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h {:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d {:02}h", s / 86400, s / 3600 % 24);
}

std::string utc_now() {
  return utc("%Y-%m-%dT%H:%M:%SZ");
}

std::string utc_now_for_names() {
  return utc("%Y%m%dT%H%M%SZ");
}

}  // namespace weft
