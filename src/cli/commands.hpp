// The commands of the program. Each adds itself to the application, and runs from CLI11's callback.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
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
/// Checks an option that takes a whole number, by default up to the largest int. Its message is "0 is not a
/// whole number from 1 to 2147483647".
CLI::Validator whole_number_from(std::uint64_t least, std::uint64_t most = std::numeric_limits<int>::max());
/// Checks an option that takes a number. Its message is "0 is not a number above 0".
CLI::Validator number_above_zero();
/// Returns the deck's option, for commands that cannot do without one.
CLI::Option* add_deck_arguments(CLI::App& command, DeckArguments& arguments);

/// The required option that names a checkpoint, or a run's checkpoints.
void add_checkpoint_option(CLI::App& command, std::string& checkpoint);
/// The option that names the token of a tokenizer.json that ends documents.
CLI::Option* add_end_of_document_option(CLI::App& command, std::string& token);
/// The options that say how many ranks share a layer and a sequence; `others` is what the other ranks have.
void add_sharing_options(CLI::App& command, int& tensor, int& context, const std::string& others);

void add_train(CLI::App& app, Context& context);
void add_plan(CLI::App& app);
void add_advise(CLI::App& app);
void add_profile(CLI::App& app, Context& context);
void add_deck(CLI::App& app);
void add_data(CLI::App& app);
void add_checkpoint(CLI::App& app);
void add_sample(CLI::App& app, Context& context);
void add_eval(CLI::App& app, Context& context);
void add_compare(CLI::App& app, Context& context);
void add_hang(CLI::App& app);
void add_study(CLI::App& app, Context& context);
/// `weft manual` and `weft completion`: of the commands that `app` has by the time they run.
void add_manual(CLI::App& app);

}  // namespace weft::cli
