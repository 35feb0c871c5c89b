#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/world.hpp"
#include "train/agree.hpp"
#include "train/trainer.hpp"
#include "watch/watchdog.hpp"

namespace weft::cli {
namespace {

void train(const DeckArguments& arguments, Context& context) {
  const auto world = make_training_world(context);
  Deck deck;
  train::agree(*world, [&] {
    deck = parse_deck(arguments.file, arguments.sets);
    resolve_mesh(deck, world->size());
  });
  const watch::Watchdog watchdog(*world, {deck.run.dir, deck.run.collective_timeout, nullptr});
  const KernelsScope kernels;
  train::Trainer trainer(deck, *world);
  if (trainer.run() == train::Outcome::out_of_time)
    context.exit_code = static_cast<int>(ExitCode::unfinished);
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
