// Counts the ranks that compute on one device.
#pragma once

#include <string_view>

namespace weft::comm {

/// How many of the lines are `mine`, each to its end. A rank's line names its host and its device there, so
/// these are the ranks that share a device with this one. Every line of `lines` ends in '\n', and `mine` has
/// none.
inline int count_sharers(std::string_view lines, std::string_view mine) {
  int sharers = 0;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    if (line == mine) ++sharers;
    lines.remove_prefix(line.size() + 1);
  }
  return sharers;
}

}  // namespace weft::comm
