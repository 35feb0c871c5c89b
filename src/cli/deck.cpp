// The command `weft deck`: prints a deck with every key resolved, or the schema.
#include "deck/deck.hpp"

#include <cstdio>

#include "base/check.hpp"
#include "cli/commands.hpp"
#include "compile/programs.hpp"

namespace weft::cli {
namespace {

struct Arguments {
  DeckArguments deck;
  bool schema = false, markdown = false;
};

void deck(const Arguments& arguments) {
  if (arguments.schema) {
    std::fputs((arguments.markdown ? schema_markdown() : schema_text()).c_str(), stdout);
    return;
  }
  WEFT_VALIDATE(!arguments.deck.file.empty(), "weft deck: no deck given (give a file, or --schema)");
  const Deck deck = parse_deck(arguments.deck.file, arguments.deck.sets);
  compile::pass_options(deck, Mesh({{"data", 1}}));  // only throws its errors
  std::fputs(print_deck(deck).c_str(), stdout);
}

}  // namespace

void add_deck(CLI::App& app) {
  CLI::App* command = app.add_subcommand("deck", "Print a deck with every key resolved, or the schema");
  auto arguments = std::make_shared<Arguments>();
  add_deck_arguments(*command, arguments->deck);  // no deck is needed with --schema
  command->add_flag("--schema", arguments->schema, "Print every key with type, default, range and meaning");
  command->add_flag("--markdown", arguments->markdown, "With --schema: as docs/deck.md")->needs("--schema");
  command->callback([arguments] { deck(*arguments); });
}

}  // namespace weft::cli
