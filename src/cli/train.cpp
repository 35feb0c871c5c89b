#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#ifdef WEFT_CUDA
#include "comm/nccl.hpp"
#endif
#include "kernels/space.hpp"
#include "train/agree.hpp"
#include "train/trainer.hpp"

namespace weft::cli {
namespace {

/// Kokkos outlives everything that holds device memory.
struct KernelsScope {
  KernelsScope() { kernels::initialize(); }
  ~KernelsScope() { kernels::finalize(); }
};

std::unique_ptr<comm::World> make_training_world(Context& context) {
  auto world = comm::make_world(&context.argc, &context.argv);
#ifdef WEFT_CUDA
  world = comm::make_nccl_world(std::move(world));
#endif
  return world;
}

void train(const DeckArguments& arguments, Context& context) {
  const auto world = make_training_world(context);
  log::set_rank(world->rank());
  Deck deck;
  train::agree(*world, [&] {
    deck = parse_deck(arguments.file, arguments.sets);
    resolve_mesh(deck, world->size());
  });
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
