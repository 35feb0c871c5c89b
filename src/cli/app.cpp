#include "cli/app.hpp"

#include "base/check.hpp"
#include "base/version.hpp"
#include "cli/commands.hpp"
#include "comm/world.hpp"

namespace weft::cli {

CLI::Option* add_deck_arguments(CLI::App& command, DeckArguments& arguments) {
  CLI::Option* deck = command.add_option("DECK", arguments.file, "The input deck (TOML)");
  command.add_option("--set", arguments.sets, "Change a key: table.key=value; may be given again")
      ->take_all()
      ->allow_extra_args(false);
  return deck;
}

int run(int argc, char** argv) {
  CLI::App app{"Weft: fully sharded training of Llama-class transformers from an input deck.", "weft"};
  app.set_version_flag("--version", fmt::format("weft {} ({})", weft_version(), weft_git_hash()));
  app.require_subcommand(1);
  Context context{argc, argv, 0};
  add_train(app, context);
  add_plan(app);
  add_deck(app);
  add_data(app);
  add_checkpoint(app);
  add_sample(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    // One line, however many ranks were given these arguments.
    const auto world = comm::make_world(&context.argc, &context.argv);
    throw Error(ExitCode::bad_input,
                world->rank() == 0 ? fmt::format("{} (see weft --help, or weft COMMAND --help)", e.what())
                                   : std::string());
  }
  return context.exit_code;
}

}  // namespace weft::cli
