// Makes the memory of a team's window, in one segment that all ranks of the team map.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/window.hpp"

namespace weft::comm::detail {

/// What the ranks of a team need from each other while they make a window. Both functions are collective over
/// the team.
struct TeamTalk {
  /// Gives everybody the text of the team's first rank.
  std::function<std::string(std::string)> from_first;
  /// Whether the argument is true on all ranks of the team.
  std::function<bool(bool)> all;
};

/// Collective over the team (world ranks, of which this one is at the place `member`): makes memory that its
/// ranks share, zeroed, reserved, and touched by nobody. It is null on all of them where one has no room for
/// its pages, or does not see the memory of the others.
std::unique_ptr<Window> make_team_window(const std::vector<int>& team, int member, const WindowSizes& sizes,
                                         const TeamTalk& talk);

}  // namespace weft::comm::detail
