// Prints values in the deck's own spelling.
#pragma once

#include <string>

#include "deck/schema.hpp"

namespace weft::deck {

/// The key's value in `deck` as TOML; reading it back gives the same value.
std::string value_text(const Key& key, const Deck& deck);

}  // namespace weft::deck
