// Finds hosts whose ranks have more threads than there are processors: they wait for each other in every
// kernel, and a step takes a hundred times as long.
#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"

namespace weft::train {

/// A warning about the first host of this kind; empty when there is none. `hosts` and `cpus`
/// (cpus_at_start()) are by rank, and each rank has as many `threads`. Ranks of one thread share processors
/// without harm. A host whose ranks do not know their CPUs is left out.
std::string crowded_host(const std::vector<std::string>& hosts, const std::vector<std::string>& cpus,
                         int threads);

/// Collective: the same of the world's ranks, on rank 0; empty on the others, and where a device computes.
std::string crowded_host(comm::World& world);

}  // namespace weft::train
