#include "cli/auto_mesh.hpp"

#include <fmt/ranges.h>

#include <sstream>
#include <utility>

#include "advise/advise.hpp"
#include "comm/agree.hpp"
#include "exec/scratch.hpp"
#include "runtime/machine_profile.hpp"
#include "runtime/memory_usage.hpp"
#include "runtime/planned_memory.hpp"
#include "runtime/same.hpp"

namespace weft::cli {
namespace {

std::vector<std::string> chosen(const Deck& deck, int world, int per_host, const machine::CostModel& costs,
                                const plan::ScratchQuery& scratch) {
  advise::Question question{deck, world, per_host, {}, costs, scratch};
  question.baseline = baseline_of_advice(deck, per_host);
  return chosen_settings(question);
}

Deck with_settings(DeckArguments arguments, const std::vector<std::string>& settings, int world) {
  arguments.sets.insert(arguments.sets.end(), settings.begin(), settings.end());
  Deck deck = parse_deck(arguments.file, arguments.sets);
  resolve_mesh(deck, world);
  return deck;
}

}  // namespace

std::int64_t baseline_of_advice(const Deck& deck, int per_host) {
  constexpr std::int64_t mpi_bytes = 8 << 20;
  return runtime::least_baseline(deck, runtime::memory_usage().rss_bytes + mpi_bytes, per_host);
}

Deck with_mesh(const Deck& deck, const DeckArguments& arguments, int world, int per_host,
               const machine::CostModel& costs, exec::Matmuls& matmuls) {
  if (!deck.parallel.mesh.empty()) return deck;
  return with_settings(
      arguments, chosen(deck, world, per_host, costs, exec::scratch_query(matmuls, costs.profile().compute)),
      world);
}

Deck with_mesh(const Deck& deck, const DeckArguments& arguments, comm::World& world) {
  if (!deck.parallel.mesh.empty()) return deck;
  const machine::CostModel costs(runtime::machine_profile(deck, world));
  std::string text;
  comm::agree(world, [&] {
    if (world.rank() != 0) return;
    exec::Matmuls matmuls(deck.precision.f32_products);
    text = fmt::format(
        "{}",
        fmt::join(chosen(deck, world.size(), world.node_size(), costs, exec::scratch_query(matmuls)), "\n"));
  });
  std::istringstream lines(world.broadcast(std::move(text), 0));
  std::vector<std::string> settings;
  for (std::string line; std::getline(lines, line);) settings.push_back(line);
  Deck chosen_deck;
  comm::agree(world, [&] { chosen_deck = with_settings(arguments, settings, world.size()); });
  return chosen_deck;
}

}  // namespace weft::cli
