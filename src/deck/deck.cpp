#include "deck/deck.hpp"

#include <fmt/core.h>

#include "deck/schema.hpp"

namespace weft {

bool operator==(const Deck& a, const Deck& b) {
  return a.run == b.run && a.model == b.model && a.data == b.data && a.optimizer == b.optimizer &&
         a.parallel == b.parallel && a.pipeline == b.pipeline && a.precision == b.precision &&
         a.schedule == b.schedule && a.checkpoint == b.checkpoint && a.log == b.log && a.debug == b.debug;
}

std::string place_of(const Deck& deck, std::string_view key) {
  for (const auto& given : deck.places)
    if (given.key == key) return fmt::format("{}: {}", given.place, key);
  return fmt::format("{}: {}", deck.source.empty() ? "deck" : deck.source, key);
}

}  // namespace weft
