// The memory of a team's window: how it lies in one segment that all members map.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/window.hpp"

namespace weft::comm::detail {

/// What the members of a team need of each other while they make a window. Both are collective over the team.
struct TeamTalk {
  /// Everybody gets member 0's text.
  std::function<std::string(std::string)> from_first;
  /// Whether it holds on all members.
  std::function<bool(bool)> all;
};

/// Collective over the team: memory that its members share, zeroed, reserved, and touched by nobody; null on
/// all of them where one has no room for its pages, or does not see the others' memory.
std::unique_ptr<Window> make_team_window(int member, int members, const WindowSizes& sizes,
                                         const TeamTalk& talk);

}  // namespace weft::comm::detail
