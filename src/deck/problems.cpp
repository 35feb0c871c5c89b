#include "deck/problems.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/quoted.hpp"

namespace weft::deck {
namespace {
constexpr std::size_t most_lines = 20;
}  // namespace

void Problems::add(std::string_view place, std::string_view key, std::string_view text) {
  std::string line =
      key.empty() ? fmt::format("{}: {}", place, text) : fmt::format("{}: {}: {}", place, key, text);
  lines_.push_back(one_line(line));
}

void Problems::throw_if_any() const {
  if (lines_.empty()) return;
  std::string message;
  const std::size_t shown = std::min(lines_.size(), most_lines);
  for (std::size_t i = 0; i < shown; ++i) message += (i == 0 ? "" : "\n") + lines_[i];
  if (lines_.size() > shown) message += fmt::format("\n... and {} more", lines_.size() - shown);
  throw Error(ExitCode::bad_input, message);
}

}  // namespace weft::deck
