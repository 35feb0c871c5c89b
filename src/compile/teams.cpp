#include "compile/teams.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "compile/programs.hpp"

namespace weft::compile {
namespace {

/// How many ranks of a host are in one group of the axis, where each host has as many; else 1.
int team(const Mesh& mesh, std::string_view name, int per_host) {
  if (mesh.size(name) == 1) return 1;
  const int axis = mesh.axis(name);
  std::int64_t size = 0;
  for (int begin = 0; begin < mesh.world(); begin += per_host) {
    std::map<int, std::int64_t> members;  // of the host, by the first rank of their group
    for (int rank = begin; rank < std::min(begin + per_host, mesh.world()); ++rank)
      ++members[mesh.group_first(rank, axis)];
    for (const auto& [first, count] : members) {
      if (size == 0) size = count;
      if (count != size) return 1;
    }
  }
  return static_cast<int>(size);
}

}  // namespace

Teams teams_of(const Deck& deck, const Mesh& mesh, const machine::Profile& machine, int per_host) {
  if (machine.compute.on_gpu()) {
    Teams teams;
    teams.peer_reads = wants_peer_reads(deck, machine) && mesh.size(data_axis) > 1 &&
                       team(mesh, data_axis, per_host) == mesh.size(data_axis);
    return teams;
  }
  if (per_host == 1 || !shares_memory(deck)) return {};
  const int data = team(mesh, data_axis, per_host);
  return {.data = data,
          .context = data > 1 ? team(mesh, context_axis, per_host) : 1,
          .tensor = team(mesh, tensor_axis, per_host)};
}

bool wants_peer_reads(const Deck& deck, const machine::Profile& machine) {
  return machine.compute.on_gpu() && deck.schedule.peer_reads &&
         deck.precision.reduction == ReduceOrder::canonical;
}

std::string peer_reads_text(const Deck& deck, const Mesh& mesh, const machine::Profile& machine,
                            int per_host) {
  if (!wants_peer_reads(deck, machine) || mesh.size(data_axis) == 1) return {};
  if (mesh.teams().peer_reads)
    return "schedule.peer_reads: gradients are read where they stand, without scratch; a run whose GPUs "
           "cannot read each other's memory says so, and plans scratch for messages";
  return fmt::format(
      "schedule.peer_reads: gradients are taken to be sent as messages, with scratch, because groups of the "
      "data axis reach over hosts of {} {}",
      per_host, per_host == 1 ? "rank" : "ranks");
}

}  // namespace weft::compile
