// The commands of the program. Each adds itself to the application, and runs from CLI11's callback.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace weft::cli {

/// What callbacks need beside their own options. MPI wants main()'s arguments.
struct Context {
  int argc = 0;
  char** argv = nullptr;
  int exit_code = 0;
};

/// A deck and the --set options that change it.
struct DeckArguments {
  std::string file;
  std::vector<std::string> sets;
};
/// Adds the arguments, and returns the deck's option, for commands that cannot do without a deck.
CLI::Option* add_deck_arguments(CLI::App& command, DeckArguments& arguments);

void add_train(CLI::App& app, Context& context);
void add_plan(CLI::App& app);
void add_profile(CLI::App& app, Context& context);
void add_deck(CLI::App& app);
void add_data(CLI::App& app);
void add_checkpoint(CLI::App& app);
void add_sample(CLI::App& app);
void add_compare(CLI::App& app, Context& context);
void add_hang(CLI::App& app);

}  // namespace weft::cli
