#include "cli/auto_mesh.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "advise/advise.hpp"
#include "base/device.hpp"
#include "comm/agree.hpp"
#include "exec/scratch.hpp"
#include "machine/elsewhere.hpp"
#include "runtime/machine_profile.hpp"
#include "runtime/memory_usage.hpp"
#include "runtime/planned_memory.hpp"
#include "runtime/same.hpp"

namespace weft::cli {
namespace {

Deck with_settings(DeckArguments arguments, const std::vector<std::string>& settings, int world) {
  arguments.sets.insert(arguments.sets.end(), settings.begin(), settings.end());
  Deck deck = parse_deck(arguments.file, arguments.sets);
  resolve_mesh(deck, world);
  return deck;
}

/// Collective: the baseline of a run's ranks, as far as it is known before there is a mesh.
std::int64_t baseline_of_run(const Deck& deck, comm::World& world) {
  std::array<double, 1> held{static_cast<double>(runtime::held_bytes(world))};
  world.all_reduce_max(held);
  return runtime::least_baseline(deck, static_cast<std::int64_t>(held[0]), world.node_size()) +
         runtime::loading_bytes(deck, world.size()) + runtime::most_saving_bytes(deck, Mesh());
}

}  // namespace

std::int64_t resident_bytes(int world) {
  constexpr std::int64_t mpi_bytes = 8 << 20;  // which a rank has, and this process has not
  runtime::trim_heap();
  if (!device_is_host()) return runtime::gpu_share(1).held;
  return runtime::memory_usage().rss_bytes + (world > 1 ? mpi_bytes : 0);
}

std::int64_t planned_baseline(const Deck& deck, const machine::Profile& profile, int world, int talking,
                              const Mesh& mesh) {
  if (machine::is_gpu_elsewhere(profile.compute))
    return 0;  // shipped machines leave out what CUDA and NCCL take
  return runtime::least_baseline(deck, resident_bytes(world), talking) + runtime::loading_bytes(deck, world) +
         runtime::most_saving_bytes(deck, mesh);
}

Deck with_mesh(const Deck& deck, int world, int per_host, const machine::CostModel& costs,
               exec::Matmuls& matmuls) {
  if (!deck.parallel.mesh.empty()) return deck;
  const plan::ScratchQuery scratch = exec::scratch_query(matmuls, costs.profile().compute);
  advise::Question question{deck, world, per_host, {}, costs, scratch};
  question.baseline = planned_baseline(deck, costs.profile(), world, std::min(world, per_host), Mesh());
  return advise::arranged(deck, advise::chosen_arrangement(question));
}

Deck with_mesh(const Deck& deck, const DeckArguments& arguments, comm::World& world) {
  if (!deck.parallel.mesh.empty()) return deck;
  const machine::CostModel costs(runtime::machine_profile(deck, world));
  const std::int64_t baseline = baseline_of_run(deck, world);
  std::string text;
  comm::agree(world, [&] {
    if (world.rank() != 0) return;
    exec::Matmuls matmuls(deck.precision.f32_products);
    const plan::ScratchQuery scratch = exec::scratch_query(matmuls);
    advise::Question question{deck, world.size(), world.node_size(), {}, costs, scratch};
    question.baseline = baseline;
    text = fmt::format("{}", fmt::join(chosen_settings(question), "\n"));
  });
  std::istringstream lines(world.broadcast(std::move(text), 0));
  std::vector<std::string> settings;
  for (std::string line; std::getline(lines, line);) settings.push_back(line);
  Deck chosen_deck;
  comm::agree(world, [&] { chosen_deck = with_settings(arguments, settings, world.size()); });
  return chosen_deck;
}

}  // namespace weft::cli
