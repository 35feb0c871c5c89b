#include "compile/teams.hpp"

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
  const bool gpu = machine.compute.on_gpu();
  if (per_host == 1 || gpu || !shares_memory(deck)) return {};
  const int data = team(mesh, data_axis, per_host);
  return {data, data > 1 ? team(mesh, context_axis, per_host) : 1, team(mesh, tensor_axis, per_host)};
}

}  // namespace weft::compile
