// Prints the schema for readers: for --schema, and as docs/deck.md.
#include <fmt/core.h>

#include "deck/print.hpp"
#include "deck/schema.hpp"

namespace weft {
namespace {

constexpr const char* introduction = R"(# The deck

<!-- Generated from src/deck/schema.cpp by `weft deck --schema --markdown > docs/deck.md`. Edit the schema, not this file. -->

A run is described by one TOML file. `weft deck FILE` prints it resolved, with every default filled in; `weft deck --schema`
prints what follows to the terminal. Any key can be set on the command line, after the file: `--set optimizer.lr=1e-3`, `--set
parallel.mode=zero1`, `--set 'data.train=["a.bin", "b.bin"]'`; the last one wins.

An unknown key, a wrong type, a value out of range or sizes that do not divide end the run before anything is allocated, with
one line for each mistake:

    inputs/my.toml:9: optimizer.learning_rate: unknown key (keys of [optimizer]: lr, ...); did you mean 'optimizer.lr'?

An integer is taken where a number is wanted, not the other way round. A duration is a number of seconds, or a string such as
`"2h30m"`, `"90s"`, `"HH:MM:SS"` or, as in Slurm, `"D-HH:MM:SS"`. Relative paths start at the working directory.

The batch is `data.global_batch` sequences a step, whatever the number of ranks. Each data-parallel rank computes it in
global_batch / (batch * ranks) microbatches of `data.batch` sequences; that has to be a whole number.
)";

}  // namespace

namespace deck {

std::string default_text(const Key& key, std::string_view quote) {
  if (key.need == Need::required) return "required";
  if (!key.derived_default.empty()) return fmt::format("{}{}{}", quote, key.derived_default, quote);
  return fmt::format("{}{}{}", quote, value_text(key, Deck{}), quote);
}

}  // namespace deck

std::string schema_text() {
  std::string text;
  std::string_view table;
  for (const auto& key : deck::keys()) {
    if (key.table() != table) {
      table = key.table();
      text += fmt::format("{}[{}]  {}\n", text.empty() ? "" : "\n", table, deck::find_table(table)->doc);
    }
    const auto range = deck::range_text(key.range);
    text += fmt::format("  {:<22} {}{}{}; {}{}\n      {}\n", key.name(), deck::type_text(key),
                        range.empty() ? "" : ", ", range, key.need == deck::Need::required ? "" : "default ",
                        deck::default_text(key), key.doc);
  }
  return text;
}

std::string schema_markdown() {
  std::string text = introduction;
  std::string_view table;
  for (const auto& key : deck::keys()) {
    if (key.table() != table) {
      table = key.table();
      text += fmt::format(
          "\n## [{}]\n\n{}\n\n| Key | Type | Default | Range | What it does |\n|---|---|---|---|---|\n",
          table, deck::find_table(table)->doc);
    }
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", key.name(), deck::type_text(key),
                        deck::default_text(key, "`"), deck::range_text(key.range), key.doc);
  }
  return text;
}

}  // namespace weft
