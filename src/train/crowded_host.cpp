#include "train/crowded_host.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <set>

#include "base/affinity.hpp"
#include "base/device.hpp"
#include "kernels/space.hpp"

namespace weft::train {

std::string crowded_host(const std::vector<std::string>& hosts, const std::vector<std::string>& cpus,
                         int threads) {
  for (const std::string& host : std::set<std::string>(hosts.begin(), hosts.end())) {
    std::ptrdiff_t ranks = 0;
    std::set<std::size_t> processors;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] != host) continue;
      ++ranks;
      for (std::size_t cpu = 0; cpu < cpus[rank].size(); ++cpu)
        if (cpus[rank][cpu] == '1') processors.insert(cpu);
    }
    const auto has = static_cast<std::ptrdiff_t>(processors.size());
    if (threads > 1 && has > 0 && ranks * threads > has)
      return fmt::format(
          "{} ranks of {} have {} threads each on {} processors; set OMP_NUM_THREADS={}, or start by "
          "jobs/launch.sh",
          ranks, host, threads, has, std::max<std::ptrdiff_t>(1, has / ranks));
  }
  return {};
}

std::string crowded_host(comm::World& world) {
  if (!device_is_host()) return {};
  const std::vector<std::string> cpus = world.gather_strings(cpus_at_start());
  return world.rank() == 0 ? crowded_host(world.hosts(), cpus, kernels::concurrency()) : std::string();
}

}  // namespace weft::train
