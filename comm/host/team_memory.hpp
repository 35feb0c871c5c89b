// Makes the memory of a window, in one segment that all of its ranks map.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/window.hpp"

namespace weft::comm::detail {

/// What ranks of a host need from each other while they make a window. Both functions are collective over
/// them.
struct HostTalk {
  /// Gives everybody the first rank's text.
  std::function<std::string(std::string)> from_first;
  /// Whether the argument is true on all ranks.
  std::function<bool(bool)> all;
};

/// Collective over `ranks` (world ranks, ascending, of which this one is at the place `member`): makes memory
/// that they share, zeroed, reserved, and touched by nobody. It is null on all of them where one has no room
/// for its pages, where these leave less than `spare` bytes to others, or does not see the memory of the
/// others.
std::unique_ptr<Window> make_window(const std::vector<int>& ranks, int member, const WindowSizes& sizes,
                                    std::int64_t spare, const HostTalk& talk);

}  // namespace weft::comm::detail
