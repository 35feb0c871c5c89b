#include "comm/agree.hpp"

#include <fmt/core.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/log.hpp"

namespace weft::comm {
namespace {

/// Joins the ranks' messages: "rank 3: MESSAGE", or the message alone when all ranks have the same.
std::string merge(const std::vector<std::string>& messages) {
  std::map<std::string, std::vector<std::size_t>> ranks;
  for (std::size_t r = 0; r < messages.size(); ++r)
    if (!messages[r].empty()) ranks[messages[r]].push_back(r);
  std::string text;
  for (const auto& [message, list] : ranks) {
    if (!text.empty()) text += '\n';
    if (list.size() == messages.size()) {
      text += message;
    } else {
      const std::size_t others = list.size() - 1;
      const std::string and_others =
          others == 0 ? "" : fmt::format(" and {} other{}", others, others == 1 ? "" : "s");
      text += fmt::format("rank {}{}: {}", list[0], and_others, message);
    }
  }
  return text;
}

}  // namespace

void agree(comm::World& world, const std::function<void()>& stage) {
  std::string message;
  double code = 0;
  try {
    stage();
  } catch (const std::exception& e) {
    message = message_of(e);
    code = static_cast<double>(exit_code_of(e));
  }
  world.all_reduce_max(std::span(&code, 1));
  if (code == 0) return;
  const std::vector<std::string> messages = world.gather_strings(message);
  throw Error(static_cast<ExitCode>(static_cast<int>(code)),
              world.rank() == 0 ? merge(messages) : std::string());
}

bool on_all_ranks(World& world, bool here) {
  double missing = here ? 0 : 1;
  world.all_reduce_max(std::span(&missing, 1));
  return missing == 0;
}

void tell_kept_warnings(World& world) {
  std::string mine;
  for (const std::string& line : log::take_kept_warnings()) mine += line + '\n';
  if (on_all_ranks(world, mine.empty())) return;
  const std::vector<std::string> of_ranks = world.gather_strings(mine);
  std::string first;  // lines of a rank and the warning that it says
  std::set<std::string> seen;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    std::istringstream lines(of_ranks[rank]);
    for (std::string line; std::getline(lines, line);)
      if (seen.insert(line).second) first += fmt::format("{} {}\n", rank, line);
  }
  std::istringstream lines(world.broadcast(std::move(first), 0));
  std::string line;
  for (int rank = 0; lines >> rank && std::getline(lines.ignore(1), line);)
    if (rank == world.rank()) log::warn("{}", line);
}

}  // namespace weft::comm
