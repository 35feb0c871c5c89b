#include <exception>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/world.hpp"
#include "job/stop_request.hpp"
#include "train/agree.hpp"
#include "train/same.hpp"
#include "train/trainer.hpp"
#include "watch/watchdog.hpp"

namespace weft::cli {
namespace {

/// A run that ends by an error no longer listens.
struct StopSignals {
  StopSignals() { job::catch_stop_signals(); }
  ~StopSignals() {
    if (std::uncaught_exceptions() > 0) job::release_stop_signals();
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

void train(const DeckArguments& arguments, Context& context) {
  const StopSignals signals;
  const auto world = make_training_world(context);
  job::catch_stop_signals();
  Deck deck;
  train::agree(*world, [&] {
    deck = parse_deck(arguments.file, arguments.sets);
    resolve_mesh(deck, world->size());
  });
  train::check_same_deck(*world, deck);
  watch::Watchdog watchdog(*world,
                           {deck.run.dir, deck.run.collective_timeout, deck.run.storage_timeout, nullptr});
  const KernelsScope kernels;
  train::Trainer trainer(deck, *world, nullptr, [&watchdog] { watchdog.look_out(); });
  switch (trainer.run()) {
    case train::Outcome::finished: break;
    case train::Outcome::unfinished: context.exit_code = static_cast<int>(ExitCode::unfinished); break;
    case train::Outcome::stopped: context.exit_code = static_cast<int>(ExitCode::stopped); break;
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
