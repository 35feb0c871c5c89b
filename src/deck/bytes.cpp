#include "deck/bytes.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace weft::deck {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 10> units{{{"TiB", 0x1p40},
                                                                     {"GiB", 0x1p30},
                                                                     {"MiB", 0x1p20},
                                                                     {"KiB", 0x1p10},
                                                                     {"TB", 1e12},
                                                                     {"GB", 1e9},
                                                                     {"MB", 1e6},
                                                                     {"kB", 1e3},
                                                                     {"B", 1},
                                                                     {"", 1}}};
constexpr std::size_t binary_units = 4;

}  // namespace

std::optional<double> parse_bytes(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc{} || !(value >= 0)) return {};
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  for (const auto& [name, size] : units)
    if (text == name) return std::round(value * size);
  return {};
}

std::string print_bytes(double bytes) {
  if (!(bytes >= 0) || bytes != std::floor(bytes) || bytes > 1e18) return {};
  for (std::size_t i = 0; i < binary_units; ++i) {
    const double n = bytes / units[i].second;
    if (n >= 1 && n == std::floor(n)) return fmt::format("{:.0f}{}", n, units[i].first);
  }
  return fmt::format("{:.0f}B", bytes);
}

}  // namespace weft::deck
