// The command `weft train`.
#include <fmt/ranges.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "advise/arrangement.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/auto_mesh.hpp"
#include "cli/commands.hpp"
#include "cli/world.hpp"
#include "comm/agree.hpp"
#include "comm/world.hpp"
#include "io/path.hpp"
#include "job/stop_request.hpp"
#include "runtime/same.hpp"
#include "train/trainer.hpp"
#include "watch/watchdog.hpp"

namespace weft::cli {
namespace {

/// Catches the signals as long as the run lasts; a run that ends by an error no longer listens.
struct StopSignals {
  StopSignals() { job::catch_stop_signals(); }
  ~StopSignals() {
    if (std::uncaught_exceptions() > 0) job::release_stop_signals();
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

Deck agreed_deck(const DeckArguments& arguments, comm::World& world) {
  Deck deck;
  comm::agree(world, [&] {
    deck = parse_deck(arguments.file, arguments.sets);
    if (!deck.parallel.mesh.empty()) resolve_mesh(deck, world.size());
  });
  runtime::check_same_deck(world, deck);
  return deck;
}

/// The deck with a run.dir that ends with no slash, which would stand twice in the paths of messages.
Deck without_slash(Deck deck) {
  deck.run.dir = io::without_slashes(std::move(deck.run.dir));
  return deck;
}

/// The places of all ranks on the mesh (watch::WatchdogOptions).
std::vector<std::string> places_of(const Deck& deck, int ranks) {
  const Mesh mesh = resolve_mesh(deck, ranks);
  std::vector<std::string> places;
  for (int rank = 0; rank < ranks; ++rank) places.push_back(mesh.place_text(rank));
  return places;
}

void train(const DeckArguments& arguments, Context& context) {
  const StopSignals signals;
  const auto world = make_training_world(context);
  job::catch_stop_signals();
  runtime::check_same_build(*world);
  const KernelsScope kernels;
  const Deck given = agreed_deck(arguments, *world);
  const Deck deck = without_slash(with_mesh(given, arguments, *world));
  watch::Watchdog watchdog(*world, {deck.run.dir, deck.run.collective_timeout, deck.run.storage_timeout,
                                    nullptr, places_of(deck, world->size())});
  train::Trainer trainer(
      deck, *world, nullptr, [&watchdog] { watchdog.look_out(); },
      [&world](const std::exception& e) { tell_at_once(e, *world); });
  if (given.parallel.mesh.empty())
    log::info("parallel.mesh = \"auto\": {}",
              fmt::join(settings(advise::arrangement_of(deck, world->size())), ", "));
  try {
    switch (trainer.run()) {
      case train::Outcome::finished: break;
      case train::Outcome::unfinished: context.exit_code = static_cast<int>(ExitCode::unfinished); break;
      case train::Outcome::stopped: context.exit_code = static_cast<int>(ExitCode::stopped); break;
    }
  } catch (const std::exception& e) {
    tell_at_once(e, *world);
  }
  world->barrier();
}

}  // namespace

void add_train(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("train", "Train a model; under mpirun or srun on all their ranks, else on one");
  auto arguments = std::make_shared<DeckArguments>();
  add_deck_arguments(*command, *arguments)->required();
  command->callback([arguments, &context] { train(*arguments, context); });
}

}  // namespace weft::cli
