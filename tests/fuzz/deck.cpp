// The fuzz target for decks. Its input is the TOML text, and behind it, each after a zero byte, settings as
// --set gives them.
#include "deck/deck.hpp"

#include <string>
#include <vector>

#include "fuzz.hpp"

using namespace weft;

namespace {

constexpr std::ptrdiff_t most_lines = 21;  // 20 mistakes, and a line that says how many more there are

void keeps_its_promises(const Deck& deck) {
  const std::string printed = print_deck(deck);
  Deck again;
  fuzz::require(!fuzz::refused([&] { again = parse_deck_text(printed, "printed.toml"); }, most_lines),
                "a printed deck is a deck", printed);
  fuzz::require(again == deck, "a printed deck is the same deck", printed);
  fuzz::require(changes(deck, again).empty(), "equal decks differ in no key", printed);
  fuzz::require(parameter_count(deck.model) > 0, "a model has parameters", printed);
  for (const int ranks : {1, 3, 512}) {
    fuzz::refused([&] { fuzz::require(accumulation(deck, ranks) > 0, "a step has microbatches", printed); });
    fuzz::refused(
        [&] { fuzz::require(resolve_mesh(deck, ranks).world() == ranks, "the mesh has all ranks"); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest = fuzz::text_of(data, size);
  const auto next = [&rest] {
    const std::string_view part = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    return part;
  };
  const std::string_view text = next();
  std::vector<std::string> sets;
  while (!rest.empty()) sets.emplace_back(next());
  Deck deck;
  if (!fuzz::refused([&] { deck = parse_deck_text(text, "deck.toml", sets); }, most_lines))
    keeps_its_promises(deck);
  return 0;
}
