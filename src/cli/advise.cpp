// The command `weft advise`.
#include "advise/advise.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/quoted.hpp"
#include "cli/auto_mesh.hpp"
#include "cli/commands.hpp"
#include "cli/world.hpp"
#include "compile/machine_profile.hpp"
#include "exec/scratch.hpp"

namespace weft::cli {
namespace {

struct AdviseArguments {
  DeckArguments deck;
  int world = 1;
  std::optional<int> per_host;
  std::string machine;
  std::vector<std::string> keep;
  std::size_t rows = 5;
};

void advise(const AdviseArguments& arguments) {
  std::vector<std::string> sets = arguments.deck.sets;
  if (!arguments.machine.empty()) sets.push_back("schedule.profile=" + weft::quoted(arguments.machine));
  const Deck given = parse_deck(arguments.deck.file, sets);
  const advise::Kept kept = advise::kept_keys(arguments.keep);
  const machine::CostModel costs(compile::machine_profile(given));
  const Deck deck = compile::planned_for(costs.profile(), given);
  const KernelsScope kernels(/*warnings=*/false);
  exec::Matmuls matmuls(deck.precision.f32_products);
  const plan::ScratchQuery scratch = exec::scratch_query(matmuls, costs.profile().compute);
  const int per_host = arguments.per_host.value_or(costs.profile().ranks_per_node);
  advise::Question question{deck, arguments.world, per_host, kept, costs, scratch};
  question.baseline =
      planned_baseline(deck, costs.profile(), arguments.world, std::min(arguments.world, per_host), Mesh());
  question.rows = arguments.rows;
  std::fputs(to_text(advise::advise(question), question).c_str(), stdout);
}

}  // namespace

void add_advise(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "advise",
      "Find the mesh, pipeline schedule, batch and recomputation that a number of ranks train fastest with");
  auto arguments = std::make_shared<AdviseArguments>();
  add_deck_arguments(*command, arguments->deck)->required();
  command->add_option("--world", arguments->world, "Ranks to advise for")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command->add_option("--machine", arguments->machine,
                      "Machine to advise for, as schedule.profile: " +
                          fmt::format("{}", fmt::join(machine::shipped_machine_names(), ", ")) +
                          ", or a file of `weft profile`");
  command->add_option("--ranks-per-host", arguments->per_host, "Ranks of a host; the machine's without it")
      ->check(whole_number_from(1));
  command
      ->add_option("--keep", arguments->keep,
                   "A key that stays as the deck has it: parallel.mode, pipeline.schedule, pipeline.chunks, "
                   "data.batch or schedule.recompute; may be given again")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--rows", arguments->rows, "Arrangements to show")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command->callback([arguments] { advise(*arguments); });
}

}  // namespace weft::cli
